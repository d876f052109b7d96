// SPDX-License-Identifier: Apache-2.0
//
// The layouts that opmux/plugin.h promises. Against TVM-FFI's and DLPack's own headers where they
// are installed (OPMUX_TVM_FFI_ROOT at configure time), and against the published numbers
// everywhere.
#include <gtest/gtest.h>

#include <cstddef>

#include "opmux/plugin.h"

#if defined(OPMUX_HAS_TVM_FFI)
#include <tvm/ffi/c_api.h>
#endif

namespace opmux {
namespace {

TEST(PluginLayoutTest, AValueIsSixteenBytesWithItsPayloadAtEight) {
  EXPECT_EQ(sizeof(OpmuxValue), 16u);
  EXPECT_EQ(offsetof(OpmuxValue, tag), 0u);
  EXPECT_EQ(offsetof(OpmuxValue, payload), 8u);
}

TEST(PluginLayoutTest, ATensorIsLaidOutLikeDlpacksTensor) {
  EXPECT_EQ(sizeof(OpmuxTensor), 48u);
  EXPECT_EQ(offsetof(OpmuxTensor, data), 0u);
  EXPECT_EQ(offsetof(OpmuxTensor, device), 8u);
  EXPECT_EQ(offsetof(OpmuxTensor, rank), 16u);
  EXPECT_EQ(offsetof(OpmuxTensor, dtype), 20u);
  EXPECT_EQ(offsetof(OpmuxTensor, shape), 24u);
  EXPECT_EQ(offsetof(OpmuxTensor, strides), 32u);
  EXPECT_EQ(offsetof(OpmuxTensor, byte_offset), 40u);
  EXPECT_EQ(offsetof(OpmuxOwnedTensor, tensor), 0u);
}

#if defined(OPMUX_HAS_TVM_FFI)
TEST(PluginLayoutTest, TagsAndFieldsAreTvmFfis) {
  static_assert(sizeof(OpmuxValue) == sizeof(TVMFFIAny));
  static_assert(offsetof(OpmuxValue, payload) == offsetof(TVMFFIAny, v_int64));
  static_assert(offsetof(OpmuxValue, reserved) == offsetof(TVMFFIAny, zero_padding));
  EXPECT_EQ(int{OPMUX_VALUE_NONE}, int{kTVMFFINone});
  EXPECT_EQ(int{OPMUX_VALUE_INT}, int{kTVMFFIInt});
  EXPECT_EQ(int{OPMUX_VALUE_BOOL}, int{kTVMFFIBool});
  EXPECT_EQ(int{OPMUX_VALUE_FLOAT}, int{kTVMFFIFloat});
  EXPECT_EQ(int{OPMUX_VALUE_POINTER}, int{kTVMFFIOpaquePtr});
  EXPECT_EQ(int{OPMUX_VALUE_DTYPE}, int{kTVMFFIDataType});
  EXPECT_EQ(int{OPMUX_VALUE_DEVICE}, int{kTVMFFIDevice});
  EXPECT_EQ(int{OPMUX_VALUE_TENSOR}, int{kTVMFFIDLTensorPtr});
  EXPECT_EQ(int{OPMUX_VALUE_STRING}, int{kTVMFFIRawStr});
}

TEST(PluginLayoutTest, DevicesAndDtypesAreDlpacks) {
  static_assert(sizeof(OpmuxTensor) == sizeof(DLTensor));
  static_assert(offsetof(OpmuxTensor, shape) == offsetof(DLTensor, shape));
  static_assert(offsetof(OpmuxTensor, byte_offset) == offsetof(DLTensor, byte_offset));
  EXPECT_EQ(int{OPMUX_DEVICE_CPU}, int{kDLCPU});
  EXPECT_EQ(int{OPMUX_DEVICE_CUDA}, int{kDLCUDA});
  EXPECT_EQ(int{OPMUX_DTYPE_INT}, int{kDLInt});
  EXPECT_EQ(int{OPMUX_DTYPE_UINT}, int{kDLUInt});
  EXPECT_EQ(int{OPMUX_DTYPE_FLOAT}, int{kDLFloat});
  EXPECT_EQ(int{OPMUX_DTYPE_BFLOAT}, int{kDLBfloat});
  EXPECT_EQ(int{OPMUX_DTYPE_BOOL}, int{kDLBool});
  EXPECT_EQ(int{OPMUX_DTYPE_FLOAT8_E4M3FN}, int{kDLFloat8_e4m3fn});
  EXPECT_EQ(int{OPMUX_DTYPE_FLOAT8_E4M3FNUZ}, int{kDLFloat8_e4m3fnuz});
  EXPECT_EQ(int{OPMUX_DTYPE_FLOAT8_E5M2}, int{kDLFloat8_e5m2});
}
#endif

}  // namespace
}  // namespace opmux
