// SPDX-License-Identifier: Apache-2.0
//
// Shadow calls: a second binding serves a sample of the calls on a copy of what the operator
// writes, and the results are compared. The served call and its result are never changed, and
// nothing that goes wrong here surfaces in it.
//
// For calls on the CPU: a copy on a device would have to go with the caller's stream and its graph
// captures.
//
// Thread safety: a ShadowCall belongs to one thread; a sample needs nothing shared.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/compare/compare.hpp"
#include "core/registry/registry.hpp"

namespace opmux {

// Whether the next call of a thread that served `served` calls of a binding is in the sample. Of
// every 1 / sample calls of a thread one is; threads begin at different places.
bool is_sampled(std::uint64_t served, double sample) noexcept;

class ShadowCall {
 public:
  // More than this is not copied.
  static constexpr std::uint64_t kMostBytes = std::uint64_t{256} << 20;

  // Before `served` is called: finds the binding that serves the second time and copies the tensors
  // that the operator writes. Null when no other binding takes this call, or when the copy fails,
  // which is counted.
  static std::unique_ptr<ShadowCall> make(const detail::OperatorState& state,
                                          const DeviceRoute& route, const BoundCall& served,
                                          const OpmuxCall& call, CounterBlock& block) noexcept;

  // After it served: calls the second binding, compares, counts and, once in a while, logs.
  void run(CounterBlock& block) noexcept;

 private:
  // Memory that tensors of the call share, of which one is written.
  struct Block {
    std::uintptr_t begin = 0, end = 0;
    std::unique_ptr<std::byte[]> copy;
  };

  ShadowCall(const detail::OperatorState& state, const DeviceRoute& route, const BoundCall& served,
             const BoundCall& second, const OpmuxCall& call);
  bool copy_written();
  Comparison compare() const;
  void tell(const std::string& what) const;

  const detail::OperatorState& state_;
  const DeviceRoute& route_;
  const BoundCall& served_;
  const BoundCall& second_;
  OpmuxCall call_;  // with the values below
  const OpmuxCall& original_;
  std::vector<OpmuxValue> values_;
  std::vector<OpmuxOwnedTensor> tensors_;  // parallel to the values; those that are copied
  std::vector<Block> blocks_;
};

}  // namespace opmux
