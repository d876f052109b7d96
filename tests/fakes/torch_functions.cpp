// SPDX-License-Identifier: Apache-2.0
//
// A small library of C++ functions over torch's types that registers nothing: rms_norm and
// silu_and_mul in the form that vLLM's builds for other vendors export them, and in namespace
// `example` one function for every kind of parameter and result, and such that misbehave. The
// extern "C" functions let a process without torch's headers see what a function saw.
#include <ATen/ATen.h>
#include <ATen/core/Generator.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#pragma GCC visibility push(default)

void rms_norm(at::Tensor& out, at::Tensor& input, at::Tensor& weight, double epsilon) {
  const at::Tensor wide = input.to(at::kFloat);
  const at::Tensor mean = wide.square().mean(-1, /*keepdim=*/true);
  out.copy_(wide * (mean + epsilon).rsqrt() * weight.to(at::kFloat));
}

void silu_and_mul(at::Tensor& out, at::Tensor& input) {
  const std::int64_t half = input.size(-1) / 2;
  at::mul_out(out, at::silu(input.narrow(-1, 0, half)), input.narrow(-1, half, half));
}

namespace example {
namespace {

std::string g_description;
at::Tensor g_kept;
std::int64_t g_stream = -1;
void (*g_callback)(void* context) = nullptr;
void* g_callback_context = nullptr;

void add(const std::string& text) { g_description += (g_description.empty() ? "" : " ") + text; }

template <class Value>
void add_number(Value value) {
  add(std::to_string(value));
}

template <class Value>
void add_optional(const std::optional<Value>& value) {
  value ? add_number(*value) : add("none");
}

template <class List>
void add_list(const List& list) {
  std::string text = "[";
  for (const long item : list) text += std::to_string(item) + ",";
  add(text + "]");
}

void add_tensor(const at::Tensor& tensor) {
  tensor.defined() ? add_number(tensor.sum().item<double>()) : add("undefined");
}

template <class Optional>
void add_optional_tensor(const Optional& tensor) {
  tensor ? add_tensor(*tensor) : add("none");
}

}  // namespace

void do_nothing(at::Tensor&, at::Tensor&) {}

// ---- every kind of parameter

void describe_scalars(bool a, char b, signed char c, unsigned char d, short e, unsigned short f,
                      int g, unsigned int h, long i, unsigned long j, long long k,
                      unsigned long long l, float m, double n) {
  g_description.clear();
  add_number(a ? 1 : 0);
  for (const int small : {int{b}, int{c}, int{d}, int{e}, int{f}}) add_number(small);
  add_number(g);
  add_number(h);
  add_number(i);
  add_number(j);
  add_number(k);
  add_number(l);
  add_number(m);
  add_number(n);
}

void describe_optionals(std::optional<bool> a, std::optional<int> b, std::optional<long> c,
                        std::optional<double> d, const std::optional<bool>& e,
                        const std::optional<int>& f, const std::optional<long>& g,
                        const std::optional<double>& h) {
  g_description.clear();
  a ? add(*a ? "true" : "false") : add("none");
  add_optional(b);
  add_optional(c);
  add_optional(d);
  e ? add(*e ? "true" : "false") : add("none");
  add_optional(f);
  add_optional(g);
  add_optional(h);
}

void describe_lists(c10::ArrayRef<long> a, const c10::ArrayRef<long>& b, std::vector<long> c,
                    const std::vector<long>& d, std::string e, const std::string& f) {
  g_description.clear();
  add_list(a);
  add_list(b);
  add_list(c);
  add_list(d);
  add(e);
  add(f);
  // As a callee may: the caller must not pass what is left of them the next time.
  std::vector<long>().swap(c);
  std::string().swap(e);
}

void describe_tensors(at::Tensor a, at::Tensor& b, const at::Tensor& c, std::optional<at::Tensor> d,
                      std::optional<at::Tensor>& e, const std::optional<at::Tensor>& f,
                      std::optional<const at::Tensor> g, std::optional<const at::Tensor>& h,
                      const std::optional<const at::Tensor>& i, std::optional<at::Generator> j) {
  g_description.clear();
  add_tensor(a);
  add_tensor(b);
  add_tensor(c);
  add_optional_tensor(d);
  add_optional_tensor(e);
  add_optional_tensor(f);
  add_optional_tensor(g);
  add_optional_tensor(h);
  add_optional_tensor(i);
  add(j ? "generator" : "none");
  // As a callee may: the next call must not see it.
  a.reset();
  b = at::Tensor();
  d.reset();
  e = at::zeros({1});
  h.emplace(at::zeros({1}));
}

// More values than any platform has registers for, with two-register structs at the border, so that
// one of them must lie on the stack as a whole.
std::tuple<at::Tensor, at::Tensor> describe_crowd(long z, long a, long b, long c,
                                                  std::optional<long> d, double e, double f,
                                                  double g, double h, double i, double j, double k,
                                                  std::optional<double> l, at::Tensor m,
                                                  c10::ArrayRef<long> n, bool o,
                                                  std::optional<long> p, float q) {
  g_description.clear();
  for (const long value : {z, a, b, c}) add_number(value);
  add_optional(d);
  for (const double value : {e, f, g, h, i, j, k}) add_number(value);
  add_optional(l);
  add_tensor(m);
  add_list(n);
  add(o ? "true" : "false");
  add_optional(p);
  add_number(q);
  return {m + 1, m + 2};
}

// ---- every kind of result

at::Tensor doubled(const at::Tensor& input) { return input * 2; }
std::vector<at::Tensor> parts(const at::Tensor& input) { return {input + 1, input.sum(-1)}; }
std::vector<at::Tensor> no_parts(const at::Tensor&) { return {}; }
std::tuple<at::Tensor, at::Tensor> two(const at::Tensor& input) { return {input + 1, input + 2}; }
std::tuple<at::Tensor, at::Tensor, at::Tensor> three(const at::Tensor& input) {
  return {input + 1, input + 2, input + 3};
}
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> four(const at::Tensor& input) {
  return {input + 1, input + 2, input + 3, input + 4};
}
at::Tensor write_and_return(at::Tensor& out, const at::Tensor& input) {
  out.copy_(input);
  return out;
}
at::Tensor undefined(const at::Tensor&) { return {}; }
bool fill_bool(at::Tensor& out) {
  out.fill_(1);
  return true;
}
int fill_int(at::Tensor& out) {
  out.fill_(2);
  return -1;
}
long fill_long(at::Tensor& out) {
  out.fill_(3);
  return -1;
}
double fill_double(at::Tensor& out) {
  out.fill_(4);
  return -1;
}
float fill_float(at::Tensor& out) {
  out.fill_(5);
  return -1;
}

// ---- what a function may do to its arguments

void rebind(at::Tensor& out) { out = at::ones_like(out); }
void rebind_to_nothing(at::Tensor& out) { out = at::Tensor(); }
void rebind_to_view(at::Tensor& out) {
  out = out.view({-1});
  out.fill_(6);
}
void rebind_optional(std::optional<at::Tensor>& out) { out = at::ones_like(*out); }
void reset_optional(std::optional<at::Tensor>& out) { out.reset(); }
void replace_storage(at::Tensor& out) { out.set_(at::ones_like(out)); }
// Like a kernel that pads an input which it only reads.
void rebind_input(at::Tensor& out, at::Tensor& input) {
  input = input + 1;
  out.copy_(input);
}
void rebind_value(at::Tensor out) { out = at::ones_like(out); }

void keep(at::Tensor input) { g_kept = std::move(input); }
void forget() { g_kept = at::Tensor(); }

// ---- what goes wrong, and where it runs

void throw_before(at::Tensor&) { TORCH_CHECK(false, "refused before anything was written"); }
at::Tensor throw_after(at::Tensor& out) {
  out.fill_(7);
  TORCH_CHECK(false, "failed half way");
}
void throw_foreign(at::Tensor&) { throw 42; }

void record_modes() {
  g_description = std::string(c10::InferenceMode::is_enabled() ? "inference" : "training") +
                  (at::GradMode::is_enabled() ? " grad" : " no grad");
}

void record_stream(at::Tensor& out) {
  g_stream = -1;
  if (out.is_cuda()) {
    const c10::impl::VirtualGuardImpl guards(c10::DeviceType::CUDA);
    g_stream = guards.getStream(out.device()).id();
  }
  out.fill_(8);
}

void call_back(at::Tensor& out, const at::Tensor& input) {
  if (g_callback != nullptr) g_callback(g_callback_context);
  out.copy_(input);  // after the nested call: the arguments must still be this call's
}

// ---- what no mapping can call

void take_pointer(at::Tensor*) {}
void take_scalar(const at::Scalar&) {}

}  // namespace example

extern "C" {
const char* example_description() { return example::g_description.c_str(); }
float example_kept_value() {
  return example::g_kept.defined() ? *example::g_kept.data_ptr<float>() : -1.0F;
}
std::int64_t example_stream() { return example::g_stream; }
void example_set_callback(void (*callback)(void*), void* context) {
  example::g_callback = callback;
  example::g_callback_context = context;
}
}

#pragma GCC visibility pop
