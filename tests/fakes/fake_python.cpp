// SPDX-License-Identifier: Apache-2.0
//
// Python's library as far as telling its version goes.
extern "C" __attribute__((visibility("default"))) const char* Py_GetVersion() {
  return FAKE_VERSION;
}
