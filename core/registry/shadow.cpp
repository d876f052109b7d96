// SPDX-License-Identifier: Apache-2.0
#include "core/registry/shadow.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <exception>
#include <optional>
#include <utility>

#include "core/base/log.hpp"
#include "core/base/text.hpp"
#include "core/compare/floats.hpp"
#include "core/loader/loader.hpp"

namespace opmux {
namespace {

using detail::OperatorState;

const OpmuxTensor* tensor_of(const OpmuxValue& value) {
  return value.tag == OPMUX_VALUE_TENSOR ? value.payload.tensor : nullptr;
}

std::byte* base_of(const OpmuxTensor& tensor) {
  return static_cast<std::byte*>(tensor.data) + tensor.byte_offset;
}

std::uintptr_t begin_of(const OpmuxTensor& tensor) {
  return reinterpret_cast<std::uintptr_t>(base_of(tensor));
}

std::int64_t bytes_of(const OpmuxDataType& dtype) { return dtype.bits * dtype.lanes / 8; }

std::int64_t stride_of(const OpmuxTensor& tensor, std::int32_t dimension) {
  if (tensor.strides != nullptr) return tensor.strides[dimension];
  std::int64_t stride = 1;
  for (std::int32_t inner = dimension + 1; inner < tensor.rank; ++inner)
    stride *= tensor.shape[inner];
  return stride;
}

bool is_empty(const OpmuxTensor& tensor) {
  return std::any_of(tensor.shape, tensor.shape + tensor.rank,
                     [](std::int64_t size) { return size == 0; });
}

// Addresses of the first byte and behind the last; nothing without elements.
std::optional<std::pair<std::uintptr_t, std::uintptr_t>> range_of(const OpmuxTensor& tensor) {
  if (is_empty(tensor)) return std::nullopt;
  std::int64_t low = 0;
  std::int64_t high = 0;
  for (std::int32_t dimension = 0; dimension < tensor.rank; ++dimension) {
    const std::int64_t reach = (tensor.shape[dimension] - 1) * stride_of(tensor, dimension);
    (reach < 0 ? low : high) += reach;
  }
  const std::int64_t bytes = bytes_of(tensor.dtype);
  const std::uintptr_t begin = begin_of(tensor);
  return std::pair{begin + static_cast<std::uintptr_t>(low * bytes),
                   begin + static_cast<std::uintptr_t>((high + 1) * bytes)};
}

// Calls visit(offset, elements), the offset in bytes, for every run of elements that lie side by
// side, in row-major order. Memory between them is not the tensor's: others may write there
// meanwhile.
template <class Visit>
void for_each_run(const OpmuxTensor& tensor, const Visit& visit) {
  if (is_empty(tensor)) return;
  std::int32_t outer = tensor.rank;
  std::int64_t run = 1;
  while (outer > 0 && (stride_of(tensor, outer - 1) == run || tensor.shape[outer - 1] == 1))
    run *= tensor.shape[--outer];
  std::vector<std::int64_t> index(static_cast<std::size_t>(outer), 0);
  const std::int64_t bytes = bytes_of(tensor.dtype);
  for (;;) {
    std::int64_t offset = 0;
    for (std::int32_t dimension = 0; dimension < outer; ++dimension)
      offset += index[static_cast<std::size_t>(dimension)] * stride_of(tensor, dimension);
    visit(static_cast<std::ptrdiff_t>(offset * bytes), static_cast<std::size_t>(run));
    std::int32_t dimension = outer;
    while (dimension > 0) {
      std::int64_t& at = index[static_cast<std::size_t>(--dimension)];
      if (++at < tensor.shape[dimension]) break;
      at = 0;
      if (dimension == 0) return;
    }
    if (outer == 0) return;
  }
}

bool takes(const BoundCall& binding, const OpmuxCall& call) {
  return std::all_of(
      binding.conditions.begin(), binding.conditions.end(),
      [&](const CompiledCondition& condition) { return holds(condition, call.values); });
}

const BoundCall* second_binding(const DeviceRoute& route, const BoundCall& served,
                                const OpmuxCall& call) {
  const auto fits = [&](const BoundCall* binding) {
    return binding->counter != served.counter && takes(*binding, call) &&
           (binding->record == nullptr || binding->record->health.is_healthy());
  };
  if (route.shadow.binding != nullptr)
    return fits(route.shadow.binding) ? route.shadow.binding : nullptr;
  const auto at = std::find(route.entries.begin(), route.entries.end(), &served);
  if (at == route.entries.end()) return nullptr;
  const auto next = std::find_if(at + 1, route.entries.end(), fits);
  return next == route.entries.end() ? nullptr : *next;
}

}  // namespace

bool is_sampled(std::uint64_t served, double sample) noexcept {
  static std::atomic<std::uint32_t> threads{0};
  // Multiples of the golden ratio fill [0, 1) evenly, however many threads there are.
  thread_local const double phase = [] {
    const double turns = 0.6180339887498949 * threads.fetch_add(1, std::memory_order_relaxed);
    return turns - std::floor(turns);
  }();
  const double count = static_cast<double>(served);
  return std::floor((count + 1.0) * sample + phase) > std::floor(count * sample + phase);
}

std::unique_ptr<ShadowCall> ShadowCall::make(const OperatorState& state, const DeviceRoute& route,
                                             const BoundCall& served, const OpmuxCall& call,
                                             CounterBlock& block) noexcept {
  try {
    const BoundCall* const second = second_binding(route, served, call);
    if (second == nullptr) return nullptr;
    std::unique_ptr<ShadowCall> made(new ShadowCall(state, route, served, *second, call));
    if (made->copy_written()) return made;
    made->tell("not compared: what it writes spans more than " + std::to_string(kMostBytes >> 20) +
               " MiB");
  } catch (const std::exception&) {
    // Memory ran out; the call itself goes on.
  }
  BindingCounterCell::increment(block.cell(served.counter).shadow_errors);
  return nullptr;
}

ShadowCall::ShadowCall(const OperatorState& state, const DeviceRoute& route,
                       const BoundCall& served, const BoundCall& second, const OpmuxCall& call)
    : state_(state),
      route_(route),
      served_(served),
      second_(second),
      call_(call),
      original_(call),
      values_(call.values, call.values + call.value_count),
      tensors_(call.value_count) {
  call_.values = values_.data();
}

bool ShadowCall::copy_written() {
  // Tensors that share memory with a written one are read by the second binding as they were, too,
  // so memory is copied by blocks that no tensor crosses.
  std::vector<std::optional<std::pair<std::uintptr_t, std::uintptr_t>>> ranges(values_.size());
  for (std::size_t index = 0; index < values_.size(); ++index) {
    const OpmuxTensor* const tensor = tensor_of(values_[index]);
    if (tensor == nullptr || !(ranges[index] = range_of(*tensor))) continue;
    if (schema::is_written(state_.schema.arguments[index]))
      blocks_.push_back({ranges[index]->first, ranges[index]->second, nullptr});
  }
  for (bool grown = true; grown;) {
    grown = false;
    std::sort(blocks_.begin(), blocks_.end(),
              [](const Block& a, const Block& b) { return a.begin < b.begin; });
    for (std::size_t at = 1; at < blocks_.size();) {
      if (blocks_[at].begin >= blocks_[at - 1].end) {
        ++at;
        continue;
      }
      blocks_[at - 1].end = std::max(blocks_[at - 1].end, blocks_[at].end);
      blocks_.erase(blocks_.begin() + static_cast<std::ptrdiff_t>(at));
    }
    for (const auto& range : ranges) {
      if (!range) continue;
      for (Block& block : blocks_) {
        if (range->second <= block.begin || range->first >= block.end ||
            (range->first >= block.begin && range->second <= block.end))
          continue;
        block.begin = std::min(block.begin, range->first);
        block.end = std::max(block.end, range->second);
        grown = true;
      }
    }
  }
  std::uint64_t total = 0;
  for (const Block& block : blocks_) total += block.end - block.begin;
  if (total > kMostBytes) return false;
  // Rows may be read in vectors, as they are where the caller has them: the alignment stays.
  constexpr std::uintptr_t kAlignment = 64;
  for (Block& block : blocks_) {
    const std::uintptr_t lead = block.begin % kAlignment;
    block.begin -= lead;
    block.copy = std::make_unique_for_overwrite<std::byte[]>(block.end - block.begin + kAlignment);
  }
  for (std::size_t index = 0; index < values_.size(); ++index) {
    if (!ranges[index]) continue;
    const auto block = std::find_if(blocks_.begin(), blocks_.end(), [&](const Block& candidate) {
      return ranges[index]->first >= candidate.begin && ranges[index]->second <= candidate.end;
    });
    if (block == blocks_.end()) continue;
    const OpmuxTensor& tensor = *tensor_of(values_[index]);
    std::byte* const aligned =
        block->copy.get() +
        (kAlignment - reinterpret_cast<std::uintptr_t>(block->copy.get()) % kAlignment) %
            kAlignment;
    std::byte* const to = aligned + (begin_of(tensor) - block->begin);
    const std::byte* const from = base_of(tensor);
    for_each_run(tensor, [&](std::ptrdiff_t offset, std::size_t count) {
      std::memcpy(to + offset, from + offset,
                  count * static_cast<std::size_t>(bytes_of(tensor.dtype)));
    });
    // Without the owner, which is the caller's memory.
    OpmuxOwnedTensor& copy = tensors_[index];
    copy.tensor = tensor;
    copy.tensor.data = to;
    copy.tensor.byte_offset = 0;
    values_[index].payload.tensor = &copy.tensor;
  }
  return true;
}

Comparison ShadowCall::compare() const {
  Comparison comparison;
  for (std::size_t index = 0; index < values_.size(); ++index) {
    if (!schema::is_written(state_.schema.arguments[index])) continue;
    const OpmuxTensor* const found = tensor_of(original_.values[index]);
    if (found == nullptr) continue;
    const OpmuxTensor* const expected = tensor_of(values_[index]);
    const std::optional<DType> dtype = dtype_of(found->dtype);
    const auto bytes = static_cast<std::size_t>(bytes_of(found->dtype));
    const std::byte* const wanted = base_of(*expected);
    const std::byte* const had = base_of(*found);
    std::size_t first = 0;
    for_each_run(*found, [&](std::ptrdiff_t offset, std::size_t count) {
      const std::byte* const have = had + offset;
      const std::byte* const want = wanted + offset;
      if (std::memcmp(have, want, count * bytes) == 0) {
        comparison.elements += count;
      } else if (!dtype) {
        comparison.within = false;
        ++comparison.outside;
      } else {
        for (std::size_t at = 0; at < count; ++at)
          compare_element(state_.schema.arguments[index].name, first + at,
                          load(want + at * bytes, *dtype), load(have + at * bytes, *dtype), *dtype,
                          route_.shadow.tolerance, comparison);
      }
      first += count;
    });
  }
  return comparison;
}

void ShadowCall::tell(const std::string& what) const {
  Registry& registry = *state_.registry;
  if (served_.record != nullptr && !served_.record->shadow_log.allow(registry.now())) return;
  log::warn(state_.name + ": " + served_.provider + " against its shadow " + second_.provider +
            ": " + what);
}

void ShadowCall::run(CounterBlock& block) noexcept {
  try {
    OpmuxStatus answer = OPMUX_OK;
    {
      const WorkspaceScope workspace;
      // Counted also under an override, which does not hold the modules of shadows.
      answer = call_binding(second_, call_);
    }
    const std::string error = take_module_error();
    // Not of interest: it does not take this call, or is about to go.
    if (answer == OPMUX_UNSUPPORTED || answer == kModuleClosing) return;
    BindingCounterCell::increment(block.cell(served_.counter).shadow_calls);
    if (answer != OPMUX_OK) {
      BindingCounterCell::increment(block.cell(served_.counter).shadow_errors);
      tell("the shadow failed with status " + std::to_string(answer) +
           (error.empty() ? std::string() : ": " + printable(error)));
      return;
    }
    const Comparison comparison = compare();
    if (comparison.within) return;
    BindingCounterCell::increment(block.cell(served_.counter).shadow_differences);
    tell(std::to_string(comparison.outside) + " of " + std::to_string(comparison.elements) +
         " elements differ by more than the tolerance, the first " + comparison.worst);
  } catch (const std::exception&) {
    BindingCounterCell::increment(block.cell(served_.counter).shadow_errors);
  }
}

}  // namespace opmux
