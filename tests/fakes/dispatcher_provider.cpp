// SPDX-License-Identifier: Apache-2.0
//
// A provider that registers with torch's Dispatcher. One source, many libraries, by definitions:
//   FAKE_NAMESPACE   the namespace (opmux_fake)
//   FAKE_FRAGMENT    registers as a fragment, which shares the namespace, not as its only owner
//   FAKE_OPERATORS   defines the operators below (default unless one of the following is set)
//   FAKE_SCHEMA      defines this one schema, e.g. "scale(Tensor input, float factor, Tensor! out)
//   -> ()" FAKE_KEY         the dispatch key of FAKE_SCHEMA's kernel (CPU); FAKE_NO_KERNEL leaves
//   it out FAKE_IMPL_ONLY   adds a CUDA kernel for opmux_fake::scale, which another library defines
//   FAKE_CONSTRUCTOR runs as a static constructor before the registration, e.g. ::abort()
// The extern "C" functions let a process without torch's headers see what a kernel saw.
#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <torch/library.h>

#include <cstdlib>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#ifndef FAKE_NAMESPACE
#define FAKE_NAMESPACE opmux_fake
#endif
#ifndef FAKE_KEY
#define FAKE_KEY CPU
#endif
#ifdef FAKE_FRAGMENT
#define FAKE_BLOCK(name, library) TORCH_LIBRARY_FRAGMENT(name, library)
#else
#define FAKE_BLOCK(name, library) TORCH_LIBRARY(name, library)
#endif

#ifdef FAKE_CONSTRUCTOR
namespace {
const int g_constructed = [] {
  FAKE_CONSTRUCTOR;
  return 0;
}();
}  // namespace
#endif

#if defined(FAKE_SCHEMA)

namespace {
// Takes whatever the schema says and does nothing with it.
[[maybe_unused]] void accept_anything(const c10::OperatorHandle& handle, torch::jit::Stack* stack) {
  stack->erase(stack->end() - static_cast<std::ptrdiff_t>(handle.schema().arguments().size()),
               stack->end());
}
}  // namespace

// The text lies in the file once and whole, so that tests can write another schema into a copy.
static std::string schema_text() {
  static const char text[] = FAKE_SCHEMA;
  const char* pointer = text;
  asm("" : "+r"(pointer));  // keeps the compiler from building the string out of immediates
  return pointer;
}

FAKE_BLOCK(FAKE_NAMESPACE, library) {
  const std::string schema = schema_text();
  library.def(schema.c_str());
#ifndef FAKE_NO_KERNEL
  library.impl(schema.substr(0, schema.find('(')).c_str(),
               torch::dispatch(c10::DispatchKey::FAKE_KEY,
                               torch::CppFunction::makeFromBoxedFunction<&accept_anything>()));
#endif
}

#elif defined(FAKE_IMPL_ONLY)

namespace {
void scale_on_cuda(const at::Tensor&, double, at::Tensor&) {}
}  // namespace

TORCH_LIBRARY_IMPL(FAKE_NAMESPACE, CUDA, library) { library.impl("scale", &scale_on_cuda); }

#else

namespace {

std::optional<at::Tensor> g_kept;
void (*g_callback)(void* context) = nullptr;
void* g_callback_context = nullptr;
int g_inference = -1;
int g_grad = -1;

void scale(const at::Tensor& input, double factor, at::Tensor& out) {
  at::mul_out(out, input, at::scalar_tensor(factor, input.options()));
}
at::Tensor doubled(const at::Tensor& input) { return input * 2; }
std::tuple<at::Tensor, at::Tensor> split(const at::Tensor& input) {
  return {input + 1, input.sum(-1)};
}
std::vector<at::Tensor> parts(const at::Tensor& input) {
  return {input + 1, input.sum(-1), input * 2};
}
std::vector<at::Tensor> no_parts(const at::Tensor&) { return {}; }
std::vector<at::Tensor> fill_parts(at::Tensor& out, const at::Tensor& input) {
  out.copy_(input);
  return {out, input.sum(-1)};
}
at::Tensor write_and_return(at::Tensor& out, const at::Tensor& input) {
  out.copy_(input);
  return out;
}
void optional_bias(const at::Tensor& input, const std::optional<at::Tensor>& bias,
                   at::Tensor& out) {
  out.copy_(bias ? input + *bias : input);
}

std::string g_description;
void describe(const at::Tensor& input, int64_t integer, c10::SymInt symbolic, double real,
              bool flag, std::string_view text, at::IntArrayRef integers,
              at::ArrayRef<double> reals, std::optional<std::tuple<int64_t, int64_t> > pair,
              std::optional<at::ScalarType> dtype, const at::Scalar& number, at::TensorList tensors,
              std::optional<c10::SymInt> maybe) {
  std::string& out = g_description;
  out = std::to_string(input.dim()) + " " + std::to_string(integer) + " " +
        std::to_string(symbolic.expect_int()) + " " + std::to_string(real) + " " +
        (flag ? "true" : "false") + " '" + std::string(text) + "' [";
  for (const int64_t value : integers) out += std::to_string(value) + ",";
  out += "] [";
  for (const double value : reals) out += std::to_string(value) + ",";
  out += "] ";
  out += pair ? "(" + std::to_string(std::get<0>(*pair)) + "," +
                    std::to_string(std::get<1>(*pair)) + ")"
              : "None";
  out += dtype ? std::string(" ") + c10::toString(*dtype) : " None";
  out += (number.isIntegral(false) ? " int " : " float ") + std::to_string(number.to<double>());
  for (const at::Tensor& tensor : tensors)
    out += " sum " + std::to_string(tensor.sum().item<double>());
  out += maybe ? " " + std::to_string(maybe->expect_int()) : " None";
}

void keep(const at::Tensor& input) { g_kept = input; }
void keep_view(const at::Tensor& input) { g_kept = input.view({-1}); }
void forget(const at::Tensor&) { g_kept.reset(); }
void replace_storage(at::Tensor& out) { out.set_(at::ones(out.sizes(), out.options())); }
void shrink(at::Tensor& out) { out.resize_({1}); }
void grow(at::Tensor& out) { out.resize_({1 << 20}); }
void transpose(at::Tensor& out) { out.t_(); }
void require_grad(const at::Tensor& input) { const_cast<at::Tensor&>(input).requires_grad_(); }

void throw_before(at::Tensor&) { TORCH_CHECK(false, "refused before anything was written"); }
void throw_after(at::Tensor& out) {
  out.fill_(7);
  TORCH_CHECK(false, "failed half way");
}
void throw_foreign(at::Tensor&) { throw 42; }

void record_modes(const at::Tensor&) {
  g_inference = c10::InferenceMode::is_enabled() ? 1 : 0;
  g_grad = at::GradMode::is_enabled() ? 1 : 0;
}
void call_back(const at::Tensor& input, at::Tensor& out) {
  if (g_callback != nullptr) g_callback(g_callback_context);
  out.copy_(input);  // after the nested call: the arguments must still be this call's
}
at::Tensor wrong_shape(const at::Tensor& input) { return input.unsqueeze(0).clone(); }
at::Tensor wrong_dtype(const at::Tensor& input) { return input.to(at::kDouble); }
void leave_too_much(const c10::OperatorHandle&, torch::jit::Stack*) {}  // pops nothing

}  // namespace

FAKE_BLOCK(FAKE_NAMESPACE, library) {
  library.def("scale(Tensor input, float factor, Tensor! out) -> ()");
  library.def("doubled(Tensor input) -> Tensor");
  library.def("split(Tensor input) -> (Tensor, Tensor)");
  library.def("parts(Tensor input) -> Tensor[]");
  library.def("no_parts(Tensor input) -> Tensor[]");
  library.def("fill_parts(Tensor! out, Tensor input) -> Tensor[]");
  library.def("write_and_return(Tensor(a!) out, Tensor input) -> Tensor(a!)");
  library.def("optional_bias(Tensor input, Tensor? bias, Tensor! out) -> ()");
  library.def(
      "describe(Tensor input, int integer, SymInt symbolic, float real, bool flag, str text, "
      "int[] integers, float[] reals, (int, int)? pair, ScalarType? dtype, Scalar number, "
      "Tensor[] tensors, SymInt? maybe) -> ()");
  library.def("keep(Tensor input) -> ()");
  library.def("keep_view(Tensor input) -> ()");
  library.def("forget(Tensor input) -> ()");
  library.def("replace_storage(Tensor! out) -> ()");
  library.def("shrink(Tensor! out) -> ()");
  library.def("grow(Tensor! out) -> ()");
  library.def("transpose(Tensor! out) -> ()");
  library.def("require_grad(Tensor input) -> ()");
  library.def("throw_before(Tensor! out) -> ()");
  library.def("throw_after(Tensor! out) -> ()");
  library.def("throw_foreign(Tensor! out) -> ()");
  library.def("record_modes(Tensor input) -> ()");
  library.def("call_back(Tensor input, Tensor! out) -> ()");
  library.def("wrong_shape(Tensor input) -> Tensor");
  library.def("wrong_dtype(Tensor input) -> Tensor");
  library.def("leave_too_much(Tensor input) -> ()");
  library.def("no_kernel(Tensor input) -> ()");
  library.def("composite(Tensor input) -> Tensor", &doubled);
  library.def("overloaded.int(Tensor input, int value) -> ()");
}

TORCH_LIBRARY_IMPL(FAKE_NAMESPACE, CPU, library) {
  library.impl("scale", &scale);
  library.impl("doubled", &doubled);
  library.impl("split", &split);
  library.impl("parts", &parts);
  library.impl("no_parts", &no_parts);
  library.impl("fill_parts", &fill_parts);
  library.impl("write_and_return", &write_and_return);
  library.impl("optional_bias", &optional_bias);
  library.impl("describe", &describe);
  library.impl("keep", &keep);
  library.impl("keep_view", &keep_view);
  library.impl("forget", &forget);
  library.impl("replace_storage", &replace_storage);
  library.impl("shrink", &shrink);
  library.impl("grow", &grow);
  library.impl("transpose", &transpose);
  library.impl("require_grad", &require_grad);
  library.impl("throw_before", &throw_before);
  library.impl("throw_after", &throw_after);
  library.impl("throw_foreign", &throw_foreign);
  library.impl("record_modes", &record_modes);
  library.impl("call_back", &call_back);
  library.impl("wrong_shape", &wrong_shape);
  library.impl("wrong_dtype", &wrong_dtype);
  library.impl("leave_too_much", torch::CppFunction::makeFromBoxedFunction<&leave_too_much>());
}

extern "C" {
__attribute__((visibility("default"))) float fake_kept_value() {
  return g_kept ? *g_kept->data_ptr<float>() : -1.0F;
}
__attribute__((visibility("default"))) const char* fake_description() {
  return g_description.c_str();
}
__attribute__((visibility("default"))) void fake_set_callback(void (*callback)(void*),
                                                              void* context) {
  g_callback = callback;
  g_callback_context = context;
}
__attribute__((visibility("default"))) int fake_saw_inference_mode() { return g_inference; }
__attribute__((visibility("default"))) int fake_saw_grad_mode() { return g_grad; }
}

#endif
