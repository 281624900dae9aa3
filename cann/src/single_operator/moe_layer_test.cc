// The MoE layer as one operator: against the layer in fp64, and what it refuses.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "acl/acl_op.h"
#include "cann/testing/device.h"
#include "cann/testing/routing_case.h"

namespace opst::cann {
namespace {

class MoeLayerTest : public DeviceTest {
 protected:
  // A named description of a tensor's memory.
  aclTensorDesc* Describe(const char* name, const Ints& dims, const DeviceTensor& tensor) {
    aclTensorDesc* const desc =
        aclCreateTensorDesc(ACL_FLOAT, static_cast<int>(dims.size()), dims.data(), ACL_FORMAT_ND);
    aclSetTensorDescName(desc, name);
    aclDataBuffer* const buffer =
        aclCreateDataBuffer(tensor.address(), tensor.num_elements() * sizeof(float));
    EXPECT_EQ(aclSetTensorDescData(desc, buffer), ACL_SUCCESS);
    EXPECT_EQ(aclDestroyDataBuffer(buffer), ACL_SUCCESS) << "the description has copied it";
    return desc;
  }
  DeviceTensor Of(const Ints& dims, const std::vector<float>& values) {
    return DeviceTensor::Floats(ACL_FLOAT, dims, values);
  }
};

double Dot(const std::vector<float>& a, size_t at, const std::vector<float>& b, size_t from,
           int64_t count) {
  double sum = 0;
  for (size_t i = 0; i < At(count); ++i) sum += static_cast<double>(a[at + i]) * b[from + i];
  return sum;
}

TEST_F(MoeLayerTest, IsTheLayerOfItsWeights) {
  for (int repeat = 0; repeat < 100; ++repeat) {
    const int64_t tokens = Integer(1, 4), hidden = Integer(1, 6), inner = Integer(1, 5);
    const int64_t experts = Integer(1, 4);
    const auto x = RandomFloats(At(tokens * hidden)), router = RandomFloats(At(experts * hidden));
    const auto gate_up = RandomFloats(At(experts * 2 * inner * hidden));
    const auto down = RandomFloats(At(experts * hidden * inner));
    const auto x_t = Of({tokens, hidden}, x), r_t = Of({experts, hidden}, router),
               g_t = Of({experts, 2 * inner, hidden}, gate_up),
               d_t = Of({experts, hidden, inner}, down);
    const DeviceTensor y(ACL_FLOAT, {tokens, hidden});
    aclopHandle* const handle = aclopCreateHandle("moe_v2");
    for (aclTensorDesc* desc :
         {Describe("x", {tokens, hidden}, x_t), Describe("w_router", {experts, hidden}, r_t),
          Describe("w_gate_up", {experts, 2 * inner, hidden}, g_t),
          Describe("w_down", {experts, hidden, inner}, d_t), Describe("y", {tokens, hidden}, y)}) {
      ASSERT_EQ(aclSetTensorDesc(desc), ACL_SUCCESS);
      aclDestroyTensorDesc(desc);
    }
    ASSERT_EQ(aclSetAttrInt(handle, "experts_num", experts), ACL_SUCCESS);
    ASSERT_EQ(aclSetAttrInt(handle, "top_k", experts), ACL_SUCCESS);
    ASSERT_EQ(aclopExecute(handle), ACL_SUCCESS) << LastError();
    aclopDestroyHandle(handle);
    Doubles expected, magnitudes;
    for (int64_t token = 0; token < tokens; ++token) {
      Doubles row(At(hidden), 0), sizes(At(hidden), 0), scores;
      double total = 0;
      for (int64_t e = 0; e < experts; ++e) {
        scores.push_back(std::exp(Dot(x, At(token * hidden), router, At(e * hidden), hidden)));
        total += scores.back();
      }
      for (int64_t e = 0; e < experts; ++e) {
        for (int64_t f = 0; f < inner; ++f) {
          const size_t first = At((e * 2 * inner + f) * hidden);
          const double gate = Dot(x, At(token * hidden), gate_up, first, hidden);
          const double up = Dot(x, At(token * hidden), gate_up, first + At(inner * hidden), hidden);
          const double a = gate / (1 + std::exp(-gate)) * up * scores[At(e)] / total;
          for (int64_t h = 0; h < hidden; ++h) {
            row[At(h)] += a * down[At((e * hidden + h) * inner + f)];
            sizes[At(h)] += 100 * (1 + std::abs(a));  // what the inner sums and exp round
          }
        }
      }
      expected.insert(expected.end(), row.begin(), row.end());
      magnitudes.insert(magnitudes.end(), sizes.begin(), sizes.end());
    }
    ASSERT_TRUE(Near(ACL_FLOAT, y.ReadFloats(), expected, magnitudes));
  }
}

TEST_F(MoeLayerTest, UnknownNamesAndMissingOperandsAreErrors) {
  EXPECT_EQ(aclopCreateHandle("conv"), nullptr);
  EXPECT_THAT(LastError(), testing::HasSubstr("the operator must be moe_v2; got conv"));
  aclopHandle* const handle = aclopCreateHandle("moe_v2");
  EXPECT_EQ(aclSetAttrInt(handle, "experts", 4), 100000);
  EXPECT_THAT(LastError(), testing::HasSubstr("experts_num, top_k"));
  const DeviceTensor x(ACL_FLOAT, {2, 2});
  aclTensorDesc* const unnamed = Describe("input", {2, 2}, x);
  EXPECT_EQ(aclSetTensorDesc(unnamed), 100000);
  aclTensorDesc* const large = Describe("x", {4, 2}, x);
  EXPECT_EQ(aclSetTensorDesc(large), 0);
  EXPECT_EQ(aclopExecute(handle), 100000);
  EXPECT_THAT(LastError(), testing::HasSubstr("x must lie inside its device memory"));
  for (aclTensorDesc* desc : {unnamed, large}) aclDestroyTensorDesc(desc);
  EXPECT_EQ(aclSetTensorDesc(large), 100000) << "destroyed";
  aclopDestroyHandle(handle);
  EXPECT_EQ(aclopExecute(handle), 100000);
}

}  // namespace
}  // namespace opst::cann
