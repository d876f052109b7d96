// SPDX-License-Identifier: Apache-2.0
#include "plugins/torch/device.hpp"

#include <ATen/Context.h>
#include <ATen/ops/empty.h>
#include <dlfcn.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "plugins/torch/host.hpp"
#include "plugins/torch/tensor.hpp"

namespace opmux::torch_shared {
namespace {

// The stable C shim of libtorch_cuda, looked up in the library that is mapped: the one way to read
// a stream's handle that all supported releases have.
using CurrentCudaStream = std::int32_t (*)(std::int32_t device_index, void** stream);

CurrentCudaStream current_cuda_stream() noexcept {
  static const CurrentCudaStream function = []() -> CurrentCudaStream {
    void* library = ::dlopen("libtorch_cuda.so", RTLD_LAZY | RTLD_NOLOAD);
    return library == nullptr ? nullptr
                              : reinterpret_cast<CurrentCudaStream>(
                                    ::dlsym(library, "aoti_torch_get_current_cuda_stream"));
  }();
  return function;
}

// The handle that torch launches on when `stream` is current.
std::optional<void*> handle_of(const c10::impl::DeviceGuardImplInterface& guards,
                               c10::Stream stream) {
  const CurrentCudaStream current = current_cuda_stream();
  if (current == nullptr) {
    return std::nullopt;
  }
  const CurrentStream scope(guards, stream.device(), stream.id());
  void* handle = nullptr;
  if (current(stream.device().index(), &handle) != 0) {
    return std::nullopt;
  }
  return handle;
}

std::string find_numbering_fault(const c10::impl::DeviceGuardImplInterface& guards,
                                 c10::Device device) {
  at::globalContext().lazyInitDevice(c10::DeviceType::CUDA);
  const std::optional<void*> pooled = handle_of(guards, guards.getStreamFromGlobalPool(device));
  if (!pooled) {
    return "libtorch_cuda.so offers no aoti_torch_get_current_cuda_stream";
  }
  const auto expect = [&](void* handle, std::uint32_t kind) -> std::string {
    const auto id = stream_id(kind, handle);
    const c10::Stream stream(c10::Stream::UNSAFE, device, id.value_or(-1));
    const std::optional<void*> found = handle_of(guards, stream);
    void* expected = kind == OPMUX_STREAM_PER_THREAD_DEFAULT ? reinterpret_cast<void*>(2) : handle;
    if (id && found == expected) {
      return {};
    }
    return "this torch numbers CUDA streams differently: stream id " +
           std::to_string(id.value_or(-1)) + " is not the stream it should be";
  };
  std::string fault = expect(*pooled, OPMUX_STREAM_HANDLE);
  if (fault.empty()) {
    fault = expect(nullptr, OPMUX_STREAM_LEGACY_DEFAULT);
  }
  if (fault.empty()) {
    fault = expect(nullptr, OPMUX_STREAM_PER_THREAD_DEFAULT);
  }
  return fault;
}

// What allocate() handed out, kept alive by the tensor that owns it.
struct Allocations {
  std::mutex mutex;
  std::map<void*, at::Tensor> tensors;
};

// Never destroyed: torch's allocators may be gone before this module's statics.
Allocations& allocations() {
  static Allocations& instance = *std::make_unique<Allocations>().release();
  return instance;
}

// Runs `work` for a device that this process can reach, turning exceptions into a status.
template <class Work>
OpmuxStatus on_device(OpmuxDevice device, Work&& work) noexcept {
  try {
    if (device.type == OPMUX_DEVICE_CPU) {
      return work(nullptr);
    }
    if (device.type != OPMUX_DEVICE_CUDA) {
      return refuse(OPMUX_UNSUPPORTED,
                    "device type " + std::to_string(device.type) + " is neither cpu nor cuda");
    }
    const auto* guards = cuda_guards();
    if (guards == nullptr) {
      return refuse(OPMUX_UNSUPPORTED, "no CUDA part of torch is mapped in this process");
    }
    at::globalContext().lazyInitDevice(c10::DeviceType::CUDA);
    return work(guards);
  } catch (...) {
    return refuse(OPMUX_ERROR_BEFORE_LAUNCH, current_exception_text());
  }
}

at::Tensor bytes_at(OpmuxDevice device, void* data, std::size_t bytes) {
  std::int64_t size = static_cast<std::int64_t>(bytes);
  OpmuxTensor tensor{};
  tensor.data = data;
  tensor.device = device;
  tensor.rank = 1;
  tensor.dtype = {OPMUX_DTYPE_UINT, 8, 1};
  tensor.shape = &size;
  return make_tensor(tensor);
}

// Copies and waits, whichever streams the memory was last used on.
OpmuxStatus copy_bytes(OpmuxDevice device, OpmuxDevice destination_device, void* destination,
                       OpmuxDevice source_device, const void* source, std::size_t bytes) noexcept {
  return on_device(device, [&](const c10::impl::DeviceGuardImplInterface* guards) -> OpmuxStatus {
    if (bytes == 0) {
      return OPMUX_OK;
    }
    if (guards != nullptr) {
      guards->synchronizeDevice(static_cast<c10::DeviceIndex>(device.index));
    }
    at::Tensor to = bytes_at(destination_device, destination, bytes);
    to.copy_(bytes_at(source_device, const_cast<void*>(source), bytes));
    if (guards != nullptr) {
      guards->synchronizeDevice(static_cast<c10::DeviceIndex>(device.index));
    }
    return OPMUX_OK;
  });
}

constexpr OpmuxDevice kHostMemory{OPMUX_DEVICE_CPU, 0};

OpmuxStatus allocate(OpmuxDevice device, std::size_t bytes, void** data) {
  return on_device(device, [&](const c10::impl::DeviceGuardImplInterface*) -> OpmuxStatus {
    // A tensor without elements has no address to remember it by.
    const auto size = static_cast<std::int64_t>(std::max<std::size_t>(bytes, 1));
    at::Tensor tensor =
        at::empty({size}, at::TensorOptions().dtype(at::kByte).device(torch_device(device)));
    *data = tensor.data_ptr();
    const std::scoped_lock lock(allocations().mutex);
    allocations().tensors[*data] = std::move(tensor);
    return OPMUX_OK;
  });
}

void release(OpmuxDevice device, void* data) {
  static_cast<void>(
      on_device(device, [&](const c10::impl::DeviceGuardImplInterface* guards) -> OpmuxStatus {
        // Torch's allocator hands the memory out again at once, to whichever stream asks.
        if (guards != nullptr) {
          guards->synchronizeDevice(static_cast<c10::DeviceIndex>(device.index));
        }
        const std::scoped_lock lock(allocations().mutex);
        allocations().tensors.erase(data);
        return OPMUX_OK;
      }));
}

OpmuxStatus copy_in(OpmuxDevice device, void* destination, const void* host_source,
                    std::size_t bytes) {
  return copy_bytes(device, device, destination, kHostMemory, host_source, bytes);
}

OpmuxStatus copy_out(OpmuxDevice device, void* host_destination, const void* source,
                     std::size_t bytes) {
  return copy_bytes(device, kHostMemory, host_destination, device, source, bytes);
}

OpmuxStatus new_stream(OpmuxDevice device, void** stream) {
  return on_device(device, [&](const c10::impl::DeviceGuardImplInterface* guards) -> OpmuxStatus {
    if (guards == nullptr) {
      return refuse(OPMUX_UNSUPPORTED, "the cpu has no streams");
    }
    // One of torch's pool: it is a non-blocking stream and is never destroyed.
    const auto handle = handle_of(*guards, guards->getStreamFromGlobalPool(torch_device(device)));
    if (!handle || *handle == nullptr) {
      return refuse(OPMUX_UNSUPPORTED,
                    "libtorch_cuda.so offers no aoti_torch_get_current_cuda_stream");
    }
    *stream = *handle;
    return OPMUX_OK;
  });
}

OpmuxStatus synchronize(OpmuxDevice device, void* stream) {
  return on_device(device, [&](const c10::impl::DeviceGuardImplInterface* guards) -> OpmuxStatus {
    if (guards != nullptr) {
      const auto kind = stream == nullptr ? OPMUX_STREAM_LEGACY_DEFAULT : OPMUX_STREAM_HANDLE;
      guards->synchronizeStream(c10::Stream(c10::Stream::UNSAFE, torch_device(device),
                                            stream_id(kind, stream).value_or(0)));
    }
    return OPMUX_OK;
  });
}

}  // namespace

const c10::impl::DeviceGuardImplInterface* cuda_guards() noexcept {
  return c10::impl::device_guard_impl_registry[static_cast<std::size_t>(c10::DeviceType::CUDA)]
      .load();
}

std::optional<c10::StreamId> stream_id(std::uint32_t kind, void* stream) noexcept {
  switch (kind) {
    case OPMUX_STREAM_LEGACY_DEFAULT:
      return 0;
    case OPMUX_STREAM_PER_THREAD_DEFAULT:
      return 2;  // cudaStreamPerThread
    case OPMUX_STREAM_HANDLE: {
      const auto id = reinterpret_cast<std::intptr_t>(stream);
      if (id == 0 || (id & 1) != 0) {
        return std::nullopt;
      }
      return id;
    }
    default:
      return std::nullopt;
  }
}

const std::string& stream_numbering_fault(const c10::impl::DeviceGuardImplInterface& guards,
                                          c10::Device device) {
  // An exception leaves it to the next call to try again.
  static const std::string fault = find_numbering_fault(guards, device);
  return fault;
}

const OpmuxDeviceServices kDeviceServices = {
    sizeof(OpmuxDeviceServices), 0, allocate, release, copy_in, copy_out, new_stream, synchronize};

}  // namespace opmux::torch_shared
