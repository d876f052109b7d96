// SPDX-License-Identifier: Apache-2.0
//
// A C++ function called through libffi by its signature, by the Itanium C++ ABI on top of the
// platform's: what is not trivially copyable goes by the address of an object that the caller owns,
// whether the parameter is a value or a reference, and is returned into memory whose address the
// caller passes; trivially copyable classes go as structs do in C.
#pragma once

#include <ffi.h>

#include <vector>

#include "plugins/direct_symbol/signature.hpp"

namespace opmux::direct_symbol {

// Whether a parameter is passed as the address of its object.
bool goes_by_address(const Parameter& parameter);

class ForeignFunction {
 public:
  // Throws torch_shared::Refusal when libffi cannot describe the function.
  ForeignFunction(void* address, const Signature& signature, const Return& returned);
  ForeignFunction(ForeignFunction&&) = default;
  ForeignFunction& operator=(ForeignFunction&&) = default;

  // `values[n]` is the address of parameter n's value: of the pointer to its object where it goes
  // by address. `result` is where the function's result is to be constructed, or memory for an
  // ffi_arg. Throws what the function throws; nothing has been constructed then.
  void call(void** values, void* result) const {
    ffi_call(&interface_, reinterpret_cast<void (*)()>(address_), result, values);
  }

 private:
  void* address_;
  std::vector<ffi_type*> types_;
  mutable ffi_cif interface_{};  // points to the elements of types_; a call only reads it
};

}  // namespace opmux::direct_symbol
