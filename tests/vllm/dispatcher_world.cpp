// SPDX-License-Identifier: Apache-2.0
#include "tests/vllm/dispatcher_world.hpp"

namespace opmux::testing {
const OpmuxModule& vllm_module() {
  static const OpmuxModule* const module = [] {
    load_torch(OPMUX_TORCH_FOLDER);
    const OpmuxModule& opened = open_module(OPMUX_VLLM_MODULE);
    if (opened.start_listening() != OPMUX_OK) {
      give_up("start_listening: " + take_error());
    }
    return &opened;
  }();
  return *module;
}

void load_libtorch() { load(OPMUX_TORCH_FOLDER "/lib/libtorch.so"); }

std::map<std::string, std::vector<std::string>> registrations_of(const std::string& real_path) {
  struct Collection {
    std::string path;
    std::map<std::string, std::vector<std::string>> found;
  } collection{real_path, {}};
  const OpmuxStatus status = vllm_module().list_registrations(
      [](void* context, const OpmuxRegistration* registration) {
        auto& target = *static_cast<Collection*>(context);
        if (target.path == registration->library) {
          target.found[registration->schema] = {
              registration->dispatch_keys,
              registration->dispatch_keys + registration->dispatch_key_count};
        }
      },
      &collection);
  EXPECT_EQ(status, OPMUX_OK) << take_error();
  return collection.found;
}

Bound::Bound(const std::string& operator_schema, const std::string& provider_schema,
             const std::vector<OpmuxCallSource>& sources, const BindOptions& options) {
  std::vector<OpmuxResultTarget> targets;
  for (const std::int32_t argument : options.results) {
    targets.push_back({argument, options.result_flags});
  }
  OpmuxBindRequest request{};
  request.struct_size = sizeof(request);
  request.contract = OPMUX_CONTRACT_DISPATCHER;
  request.device_type = options.device_type;
  request.source_count = static_cast<std::uint32_t>(sources.size());
  request.result_count = static_cast<std::uint32_t>(targets.size());
  request.operator_name = "test";
  request.operator_schema = operator_schema.c_str();
  request.provider_schema = provider_schema.c_str();
  request.dispatch_key = options.dispatch_key.c_str();
  request.sources = sources.data();
  request.results = targets.data();
  bound_.struct_size = sizeof(bound_);
  status_ = vllm_module().bind(&request, &bound_);
  reason_ = take_error();
}

OpmuxStatus Bound::call(std::initializer_list<OpmuxValue> values, std::uint32_t flags,
                        OpmuxDevice device, std::uint32_t stream_kind, void* stream) const {
  if (status_ != OPMUX_OK) {
    ADD_FAILURE() << "not bound: " << reason_;
    return status_;
  }
  return call_bound(bound_, values, flags, device, stream_kind, stream);
}

}  // namespace opmux::testing
