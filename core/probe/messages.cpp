// SPDX-License-Identifier: Apache-2.0
#include "core/probe/messages.hpp"

#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "core/probe/json.hpp"

namespace opmux::probing {

namespace {

// ---- the parts that several messages share ----

Json rejection_to_json(const std::optional<Rejection>& rejection) {
  if (!rejection) return nullptr;
  return {{"stage", text_to_json(rejection->stage)},
          {"rule", text_to_json(rejection->rule)},
          {"subject", text_to_json(rejection->subject)},
          {"expected", text_to_json(rejection->expected)},
          {"found", text_to_json(rejection->found)},
          {"hint", text_to_json(rejection->hint)}};
}

std::optional<Rejection> read_optional_rejection(const Json& value) {
  if (value.is_null()) return std::nullopt;
  return Rejection{.stage = text(value, "stage"),
                   .rule = text(value, "rule"),
                   .subject = text(value, "subject"),
                   .expected = text(value, "expected"),
                   .found = text(value, "found"),
                   .hint = text(value, "hint")};
}

std::optional<Rejection> read_rejection(const Json& object, const char* name) {
  return read_optional_rejection(field(object, name));
}

Json module_to_json(const ModuleFinding& module) {
  return {{"path", text_to_json(module.path.native())},
          {"rejection", rejection_to_json(module.rejection)},
          {"name", text_to_json(module.name)},
          {"version", text_to_json(module.version)},
          {"build_identity", text_to_json(module.build_identity)},
          {"operators", list_to_json(module.operators, [](const ModuleFinding::Operator& entry) {
             return Json{{"name", text_to_json(entry.name)},
                         {"schema", text_to_json(entry.schema)},
                         {"device_type", entry.device_type},
                         {"properties", entry.properties}};
           })}};
}

ModuleFinding read_module(const Json& value) {
  ModuleFinding module;
  module.path = text(value, "path");
  module.rejection = read_rejection(value, "rejection");
  module.name = text(value, "name");
  module.version = text(value, "version");
  module.build_identity = text(value, "build_identity");
  module.operators = list(value, "operators", [](const Json& entry) {
    return ModuleFinding::Operator{text(entry, "name"), text(entry, "schema"),
                                   integer<int>(entry, "device_type"),
                                   integer<Properties>(entry, "properties")};
  });
  return module;
}

Json registrations_to_json(const std::vector<Registration>& registrations) {
  return list_to_json(registrations, [](const Registration& registration) {
    return Json{{"library", text_to_json(registration.library)},
                {"schema", text_to_json(registration.schema)},
                {"dispatch_keys", list_to_json(registration.dispatch_keys, text_to_json)}};
  });
}

std::vector<Registration> read_registrations(const Json& object) {
  return list(object, "registrations", [](const Json& value) {
    return Registration{text(value, "library"), text(value, "schema"),
                        list(value, "dispatch_keys", plain_text)};
  });
}

Json devices_to_json(const std::vector<DeviceFinding>& devices) {
  return list_to_json(devices, [](const DeviceFinding& device) {
    return Json{{"index", device.index},
                {"name", text_to_json(device.name)},
                {"major", device.major},
                {"minor", device.minor}};
  });
}

std::vector<DeviceFinding> read_devices(const Json& object) {
  return list(object, "devices", [](const Json& value) {
    return DeviceFinding{integer<int>(value, "index"), text(value, "name"),
                         integer<int>(value, "major"), integer<int>(value, "minor")};
  });
}

Json python_to_json(const std::optional<PythonLibrary>& python) {
  if (!python) return nullptr;
  return {{"path", text_to_json(python->path.native())},
          {"soname", text_to_json(python->soname)},
          {"version", text_to_json(python->version)}};
}

std::optional<PythonLibrary> read_python(const Json& object) {
  const Json& value = field(object, "python");
  if (value.is_null()) return std::nullopt;
  return PythonLibrary{text(value, "path"), text(value, "soname"), text(value, "version")};
}

// ---- names of kinds ----

constexpr std::pair<Step::What, const char*> kStepNames[] = {
    {Step::What::kDriver, "driver"},   {Step::What::kPython, "python"},
    {Step::What::kTorch, "torch"},     {Step::What::kModule, "module"},
    {Step::What::kLibrary, "library"}, {Step::What::kBinding, "binding"}};

constexpr std::pair<Reply::Kind, const char*> kReplyNames[] = {
    {Reply::Kind::kHello, "hello"},     {Reply::Kind::kLoading, "loading"},
    {Reply::Kind::kLoaded, "loaded"},   {Reply::Kind::kRefused, "refused"},
    {Reply::Kind::kDevices, "devices"}, {Reply::Kind::kRegistrations, "registrations"},
    {Reply::Kind::kLimit, "limit"},     {Reply::Kind::kDone, "done"}};

template <class Names, class Kind>
const char* name_of(const Names& names, Kind kind) {
  for (const auto& [known, name] : names) {
    if (known == kind) return name;
  }
  return "";
}

template <class Names>
auto kind_of(const Names& names, const std::string& text) {
  for (const auto& [kind, name] : names) {
    if (text == name) return kind;
  }
  throw Fault("an unknown word");
}

}  // namespace

const char* opmux_version() { return OPMUX_VERSION; }

std::string to_json(const Request& request) {
  return write({{"parent", request.parent},
                {"memory_bytes", request.limits.memory_bytes},
                {"cpu_seconds", request.limits.cpu_seconds},
                {"open_files", request.limits.open_files},
                {"file_bytes", request.limits.file_bytes},
                {"driver", text_to_json(request.driver.native())},
                {"query_driver", request.query_driver},
                {"torch_folder", text_to_json(request.torch_folder.native())},
                {"torch_version", text_to_json(request.torch_version)},
                {"torch_with_cuda", request.torch_with_cuda},
                {"python", python_to_json(request.python)},
                {"bindings", list_to_json(request.bindings, binding_to_json)},
                {"modules", list_to_json(request.modules,
                                         [](const std::filesystem::path& path) {
                                           return text_to_json(path.native());
                                         })},
                {"libraries", list_to_json(request.libraries, [](const Request::Library& library) {
                   return Json{{"path", text_to_json(library.path.native())},
                               {"python_extension", library.python_extension}};
                 })}});
}

std::optional<Request> parse_request(std::string_view json, std::string& fault) {
  return read_or_fault(json, fault, [](const Json& value) {
    Request request;
    request.parent = integer<std::int64_t>(value, "parent");
    request.limits.memory_bytes = integer<std::uint64_t>(value, "memory_bytes");
    request.limits.cpu_seconds = integer<std::uint64_t>(value, "cpu_seconds");
    request.limits.open_files = integer<std::uint64_t>(value, "open_files");
    request.limits.file_bytes = integer<std::uint64_t>(value, "file_bytes");
    request.driver = text(value, "driver");
    request.query_driver = boolean(value, "query_driver");
    request.torch_folder = text(value, "torch_folder");
    request.torch_version = text(value, "torch_version");
    request.torch_with_cuda = boolean(value, "torch_with_cuda");
    request.python = read_python(value);
    request.bindings = list(value, "bindings", read_binding);
    request.modules = list(
        value, "modules", [](const Json& path) { return std::filesystem::path(plain_text(path)); });
    request.libraries = list(value, "libraries", [](const Json& library) {
      return Request::Library{text(library, "path"), boolean(library, "python_extension")};
    });
    return request;
  });
}

std::string to_json(const Reply& reply) {
  Json json{{"type", name_of(kReplyNames, reply.kind)}};
  const auto write_step = [&json, &reply] {
    json["what"] = name_of(kStepNames, reply.step.what);
    json["index"] = reply.step.index;
  };
  switch (reply.kind) {
    case Reply::Kind::kHello:
      json["protocol"] = reply.protocol;
      json["version"] = text_to_json(reply.text);
      break;
    case Reply::Kind::kLoading:
      write_step();
      break;
    case Reply::Kind::kLoaded:
      write_step();
      json["rejection"] = rejection_to_json(reply.rejection);
      json["module"] = reply.module ? module_to_json(*reply.module) : Json(nullptr);
      break;
    case Reply::Kind::kRefused:
      write_step();
      json["rejection"] = rejection_to_json(reply.rejection);
      break;
    case Reply::Kind::kRegistrations:
      json["registrations"] = registrations_to_json(reply.registrations);
      break;
    case Reply::Kind::kDevices:
      json["cuda_driver_version"] = reply.cuda_driver_version;
      json["devices"] = devices_to_json(reply.devices);
      break;
    case Reply::Kind::kLimit:
      write_step();
      json["limit"] = text_to_json(reply.text);
      break;
    case Reply::Kind::kDone:
      break;
  }
  return write(json);
}

std::optional<Reply> parse_reply(std::string_view json, std::string& fault) {
  return read_or_fault(json, fault, [](const Json& value) {
    Reply reply;
    reply.kind = kind_of(kReplyNames, text(value, "type"));
    const auto read_step = [&value, &reply] {
      reply.step.what = kind_of(kStepNames, text(value, "what"));
      reply.step.index = integer<std::size_t>(value, "index");
    };
    switch (reply.kind) {
      case Reply::Kind::kHello:
        reply.protocol = integer<int>(value, "protocol");
        reply.text = text(value, "version");
        break;
      case Reply::Kind::kLoading:
        read_step();
        break;
      case Reply::Kind::kLoaded:
        read_step();
        reply.rejection = read_rejection(value, "rejection");
        if (!field(value, "module").is_null()) reply.module = read_module(field(value, "module"));
        break;
      case Reply::Kind::kRefused:
        read_step();
        reply.rejection = read_rejection(value, "rejection");
        break;
      case Reply::Kind::kRegistrations:
        reply.registrations = read_registrations(value);
        break;
      case Reply::Kind::kDevices:
        reply.cuda_driver_version = integer<int>(value, "cuda_driver_version");
        reply.devices = read_devices(value);
        break;
      case Reply::Kind::kLimit:
        read_step();
        reply.text = text(value, "limit");
        break;
      case Reply::Kind::kDone:
        break;
    }
    return reply;
  });
}

std::string to_json(const Findings& findings, const Digests& digests) {
  return write({{"modules", list_to_json(findings.modules, module_to_json)},
                {"libraries",
                 list_to_json(findings.libraries,
                              [](const LibraryFinding& library) {
                                return Json{{"path", text_to_json(library.path.native())},
                                            {"rejection", rejection_to_json(library.rejection)}};
                              })},
                {"registrations", registrations_to_json(findings.registrations)},
                {"cuda_driver_version", findings.cuda_driver_version},
                {"devices", devices_to_json(findings.devices)},
                {"bindings", list_to_json(findings.bindings, rejection_to_json)},
                {"python_rejection", rejection_to_json(findings.python_rejection)},
                {"torch_rejection", rejection_to_json(findings.torch_rejection)},
                {"driver_rejection", rejection_to_json(findings.driver_rejection)},
                {"digests", list_to_json(digests, text_to_json)}});
}

std::optional<Findings> parse_findings(std::string_view json, Digests& digests,
                                       std::string& fault) {
  return read_or_fault(json, fault, [&digests](const Json& value) {
    Findings findings;
    findings.modules = list(value, "modules", read_module);
    findings.libraries = list(value, "libraries", [](const Json& library) {
      return LibraryFinding{text(library, "path"), read_rejection(library, "rejection")};
    });
    findings.registrations = read_registrations(value);
    findings.cuda_driver_version = integer<int>(value, "cuda_driver_version");
    findings.devices = read_devices(value);
    findings.bindings = list(value, "bindings", read_optional_rejection);
    findings.python_rejection = read_rejection(value, "python_rejection");
    findings.torch_rejection = read_rejection(value, "torch_rejection");
    findings.driver_rejection = read_rejection(value, "driver_rejection");
    digests = list(value, "digests", plain_text);
    return findings;
  });
}

}  // namespace opmux::probing
