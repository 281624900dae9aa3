// What the tests of the CANN face share: tensors in device memory in any layout, both phases in one
// call, and random numbers.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_CANN_TESTING_DEVICE_H_
#define OPST_CANN_TESTING_DEVICE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "acl/acl.h"
#include "aclnn/acl_meta.h"

namespace opst::cann {

// How a test tensor lies in memory.
enum class Layout : uint8_t {
  kContiguous,
  kSpread,  // an offset, every other element of the last dim, gaps between rows
};

// A tensor in device memory with its descriptor; both die with it.
class DeviceTensor {
 public:
  // Filled with a pattern that no operator writes.
  DeviceTensor(aclDataType dtype, std::vector<int64_t> dims, Layout layout = Layout::kContiguous);
  // Values are converted to the dtype, floats rounded to nearest even.
  static DeviceTensor Floats(aclDataType dtype, std::vector<int64_t> dims,
                             const std::vector<float>& values, Layout layout = Layout::kContiguous);
  static DeviceTensor Ints(aclDataType dtype, std::vector<int64_t> dims,
                           const std::vector<int64_t>& values, Layout layout = Layout::kContiguous);
  // An input of int4, two in a byte, the first in the lower half; always contiguous, and not to be
  // read.
  static DeviceTensor Int4(const std::vector<int64_t>& dims, const std::vector<int64_t>& values);
  // An input [...,K,N] of f16, bf16, int8 or int4 (or int32: eight of them) in CANN's fractal
  // layout: blocks of 16 rows and 32 bytes, columns of blocks first. Not to be read.
  static DeviceTensor Fractal(aclDataType dtype, const std::vector<int64_t>& dims,
                              const std::vector<float>& values);
  ~DeviceTensor();
  DeviceTensor(DeviceTensor&& other) noexcept;
  DeviceTensor(const DeviceTensor&) = delete;
  DeviceTensor& operator=(const DeviceTensor&) = delete;

  aclTensor* get() const { return tensor_; }
  operator aclTensor*() const { return tensor_; }  // NOLINT: passed to the operators
  void* address() const { return address_; }
  std::vector<float> ReadFloats() const;
  std::vector<int64_t> ReadInts() const;
  size_t num_elements() const { return positions_.size(); }
  // Whether elements of the memory that do not belong to the tensor are as they were.
  bool gaps_are_untouched() const;
  // Whether nothing was written at all.
  bool is_untouched() const;

 private:
  // Another descriptor of the same memory.
  void Redescribe(aclDataType dtype, const std::vector<int64_t>& dims, aclFormat format);
  std::vector<uint8_t> ReadAll() const;
  void WriteAll(const std::vector<uint8_t>& bytes) const;

  aclDataType dtype_;
  std::vector<size_t> positions_;  // of each element, in elements from the start of the memory
  size_t num_bytes_ = 0;
  void* address_ = nullptr;
  aclTensor* tensor_ = nullptr;
};

// Sets a device and owns a stream.
class DeviceTest : public testing::Test {
 protected:
  using Prepare = std::function<aclnnStatus(uint64_t*, aclOpExecutor**)>;
  using Launch = aclnnStatus (*)(void*, uint64_t, aclOpExecutor*, aclrtStream);

  void SetUp() override;
  void TearDown() override;

  // Both phases and the wait; the first code that is not 0.
  int Execute(const Prepare& prepare, Launch launch) const;
  // The code of phase one alone.
  static int Check(const Prepare& prepare);

  float Uniform(float low, float high);
  int64_t Integer(int64_t low, int64_t high);  // both included
  bool Coin() { return Integer(0, 1) == 1; }
  Layout AnyLayout() { return Coin() ? Layout::kSpread : Layout::kContiguous; }
  std::vector<float> RandomFloats(size_t count, float low = -2, float high = 2);
  std::vector<int64_t> RandomInts(size_t count, int64_t low, int64_t high);

  aclrtStream stream_ = nullptr;
  std::mt19937 random_{20251115};
};

// The text of the last error, "" without one.
std::string LastError();
// The value after rounding to the dtype.
float Rounded(aclDataType dtype, float value);
// The rounding of the dtype at this magnitude, and a few of f32.
float Tolerance(aclDataType dtype, float magnitude);
// What to give as magnitude to Near(ACL_FLOAT, …) for a value that is rounded to the dtype once,
// after f32 sums of terms of this magnitude.
double OnceRounded(aclDataType dtype, double value, double magnitude);
// Compares and names the worst element; each allowed bound is Tolerance(dtype, magnitude[i] or
// |expected|).
testing::AssertionResult Near(aclDataType dtype, const std::vector<float>& actual,
                              const std::vector<double>& expected,
                              const std::vector<double>& magnitudes = {});

}  // namespace opst::cann

#endif  // OPST_CANN_TESTING_DEVICE_H_
