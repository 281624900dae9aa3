// Test tensors in device memory, read and written element by element through their own strides.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "cann/testing/device.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "opst/dtype.h"

namespace opst::cann {
namespace {

constexpr uint8_t kPattern = 0xA5;

template <typename T>
T Load(const uint8_t* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

template <typename T>
void Store(T value, uint8_t* to) {
  std::memcpy(to, &value, sizeof(T));
}

float LoadFloat(aclDataType dtype, const uint8_t* from) {
  switch (dtype) {
    case ACL_FLOAT16:
      return ToFloat(F16{Load<uint16_t>(from)});
    case ACL_BF16:
      return ToFloat(Bf16{Load<uint16_t>(from)});
    default:
      return Load<float>(from);
  }
}

void StoreFloat(aclDataType dtype, float value, uint8_t* to) {
  switch (dtype) {
    case ACL_FLOAT16:
      return Store(ToF16(value).bits, to);
    case ACL_BF16:
      return Store(ToBf16(value).bits, to);
    default:
      return Store(value, to);
  }
}

int64_t LoadInt(aclDataType dtype, const uint8_t* from) {
  switch (dtype) {
    case ACL_INT64:
    case ACL_UINT64:
      return Load<int64_t>(from);
    case ACL_INT32:
      return Load<int32_t>(from);
    default:
      return Load<int8_t>(from);
  }
}

void StoreInt(aclDataType dtype, int64_t value, uint8_t* to) {
  switch (dtype) {
    case ACL_INT64:
    case ACL_UINT64:
      return Store(value, to);
    case ACL_INT32:
      return Store(static_cast<int32_t>(value), to);
    default:
      return Store(static_cast<int8_t>(value), to);
  }
}

std::vector<int64_t> Strides(const std::vector<int64_t>& dims, Layout layout) {
  std::vector<int64_t> strides(dims.size(), 1);
  const int64_t gap = layout == Layout::kSpread ? 3 : 0;
  if (!dims.empty() && layout == Layout::kSpread) strides.back() = 2;
  for (size_t axis = dims.size(); axis-- > 1;) {
    strides[axis - 1] = std::max<int64_t>(dims[axis], 1) * strides[axis] + gap;
  }
  return strides;
}

}  // namespace

DeviceTensor::DeviceTensor(aclDataType dtype, std::vector<int64_t> dims, Layout layout)
    : dtype_(dtype) {
  const std::vector<int64_t> strides = Strides(dims, layout);
  const int64_t offset = layout == Layout::kSpread ? 5 : 0;
  std::vector<size_t> positions = {static_cast<size_t>(offset)};
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    std::vector<size_t> next;
    for (const size_t start : positions) {
      for (int64_t i = 0; i < dims[axis]; ++i) {
        next.push_back(start + static_cast<size_t>(i * strides[axis]));
      }
    }
    positions = std::move(next);
  }
  positions_ = std::move(positions);
  const size_t last = positions_.empty() ? 0 : positions_.back();
  num_bytes_ = (last + 1) * aclDataTypeSize(dtype);
  EXPECT_EQ(aclrtMalloc(&address_, num_bytes_, ACL_MEM_MALLOC_HUGE_FIRST), ACL_SUCCESS);
  WriteAll(std::vector<uint8_t>(num_bytes_, kPattern));
  tensor_ = aclCreateTensor(dims.data(), dims.size(), dtype, strides.data(), offset, ACL_FORMAT_ND,
                            dims.data(), dims.size(), address_);
  EXPECT_NE(tensor_, nullptr) << LastError();
}

DeviceTensor DeviceTensor::Floats(aclDataType dtype, std::vector<int64_t> dims,
                                  const std::vector<float>& values, Layout layout) {
  DeviceTensor tensor(dtype, std::move(dims), layout);
  std::vector<uint8_t> bytes = tensor.ReadAll();
  for (size_t i = 0; i < tensor.positions_.size(); ++i) {
    StoreFloat(dtype, values.at(i), &bytes[tensor.positions_[i] * aclDataTypeSize(dtype)]);
  }
  tensor.WriteAll(bytes);
  return tensor;
}

DeviceTensor DeviceTensor::Ints(aclDataType dtype, std::vector<int64_t> dims,
                                const std::vector<int64_t>& values, Layout layout) {
  DeviceTensor tensor(dtype, std::move(dims), layout);
  std::vector<uint8_t> bytes = tensor.ReadAll();
  for (size_t i = 0; i < tensor.positions_.size(); ++i) {
    StoreInt(dtype, values.at(i), &bytes[tensor.positions_[i] * aclDataTypeSize(dtype)]);
  }
  tensor.WriteAll(bytes);
  return tensor;
}

DeviceTensor DeviceTensor::Int4(const std::vector<int64_t>& dims,
                                const std::vector<int64_t>& values) {
  std::vector<int64_t> bytes((values.size() + 1) / 2, 0);
  for (size_t i = 0; i < values.size(); ++i) bytes[i / 2] |= (values[i] & 15) << (i % 2 * 4);
  DeviceTensor tensor = Ints(ACL_INT8, {static_cast<int64_t>(bytes.size())}, bytes);
  tensor.Redescribe(ACL_INT4, dims, ACL_FORMAT_ND);
  return tensor;
}

DeviceTensor DeviceTensor::Fractal(aclDataType dtype, const std::vector<int64_t>& dims,
                                   const std::vector<float>& values) {
  const int64_t inner = dims[dims.size() - 2], columns = dims.back();
  const int64_t width = dtype == ACL_INT4 || dtype == ACL_INT32 ? 64 : dtype == ACL_INT8 ? 32 : 16;
  EXPECT_TRUE(inner % 16 == 0 && columns % width == 0);
  std::vector<float> blocks;
  for (size_t matrix = 0; matrix < values.size(); matrix += static_cast<size_t>(inner * columns)) {
    for (int64_t first = 0; first < columns; first += width) {
      for (int64_t k = 0; k < inner; ++k) {
        const float* const line = &values[matrix + static_cast<size_t>(k * columns + first)];
        blocks.insert(blocks.end(), line, line + width);
      }
    }
  }
  const std::vector<int64_t> ints(blocks.begin(), blocks.end());
  std::vector<int64_t> stored = dims;
  if (dtype == ACL_INT32) stored.back() /= 8;
  DeviceTensor tensor = width == 64         ? Int4(dims, ints)
                        : dtype == ACL_INT8 ? Ints(dtype, dims, ints)
                                            : Floats(dtype, dims, blocks);
  tensor.Redescribe(dtype, stored, ACL_FORMAT_FRACTAL_NZ);
  return tensor;
}

void DeviceTensor::Redescribe(aclDataType dtype, const std::vector<int64_t>& dims,
                              aclFormat format) {
  EXPECT_EQ(aclDestroyTensor(tensor_), ACL_SUCCESS);
  tensor_ =
      aclCreateTensor(dims.data(), dims.size(), dtype, Strides(dims, Layout::kContiguous).data(), 0,
                      format, dims.data(), dims.size(), address_);
  EXPECT_NE(tensor_, nullptr) << LastError();
}

DeviceTensor::DeviceTensor(DeviceTensor&& other) noexcept
    : dtype_(other.dtype_),
      positions_(std::move(other.positions_)),
      num_bytes_(other.num_bytes_),
      address_(std::exchange(other.address_, nullptr)),
      tensor_(std::exchange(other.tensor_, nullptr)) {}

DeviceTensor::~DeviceTensor() {
  if (tensor_ != nullptr) aclDestroyTensor(tensor_);
  if (address_ != nullptr) aclrtFree(address_);
}

std::vector<uint8_t> DeviceTensor::ReadAll() const {
  std::vector<uint8_t> bytes(num_bytes_);
  EXPECT_EQ(aclrtMemcpy(bytes.data(), num_bytes_, address_, num_bytes_, ACL_MEMCPY_DEVICE_TO_HOST),
            ACL_SUCCESS);
  return bytes;
}

void DeviceTensor::WriteAll(const std::vector<uint8_t>& bytes) const {
  EXPECT_EQ(
      aclrtMemcpy(address_, num_bytes_, bytes.data(), bytes.size(), ACL_MEMCPY_HOST_TO_DEVICE),
      ACL_SUCCESS);
}

std::vector<float> DeviceTensor::ReadFloats() const {
  const std::vector<uint8_t> bytes = ReadAll();
  std::vector<float> values;
  for (const size_t position : positions_) {
    values.push_back(LoadFloat(dtype_, &bytes[position * aclDataTypeSize(dtype_)]));
  }
  return values;
}

std::vector<int64_t> DeviceTensor::ReadInts() const {
  const std::vector<uint8_t> bytes = ReadAll();
  std::vector<int64_t> values;
  for (const size_t position : positions_) {
    values.push_back(LoadInt(dtype_, &bytes[position * aclDataTypeSize(dtype_)]));
  }
  return values;
}

bool DeviceTensor::gaps_are_untouched() const {
  std::vector<uint8_t> bytes = ReadAll();
  const size_t size = aclDataTypeSize(dtype_);
  for (const size_t position : positions_) std::fill_n(&bytes[position * size], size, kPattern);
  return std::all_of(bytes.begin(), bytes.end(), [](uint8_t byte) { return byte == kPattern; });
}

bool DeviceTensor::is_untouched() const {
  const std::vector<uint8_t> bytes = ReadAll();
  return std::all_of(bytes.begin(), bytes.end(), [](uint8_t byte) { return byte == kPattern; });
}

void DeviceTest::SetUp() {
  ASSERT_EQ(aclrtSetDevice(0), ACL_SUCCESS);
  ASSERT_EQ(aclrtCreateStream(&stream_), ACL_SUCCESS);
}

void DeviceTest::TearDown() { EXPECT_EQ(aclrtDestroyStream(stream_), ACL_SUCCESS); }

int DeviceTest::Execute(const Prepare& prepare, Launch launch) const {
  uint64_t workspace_size = 0;
  aclOpExecutor* executor = nullptr;
  int code = prepare(&workspace_size, &executor);
  if (code != ACLNN_SUCCESS) return code;
  code = launch(nullptr, workspace_size, executor, stream_);
  return code != ACLNN_SUCCESS ? code : aclrtSynchronizeStream(stream_);
}

int DeviceTest::Check(const Prepare& prepare) {
  uint64_t workspace_size = 0;
  aclOpExecutor* executor = nullptr;
  const int code = prepare(&workspace_size, &executor);
  if (code == ACLNN_SUCCESS) aclDestroyAclOpExecutor(executor);
  return code;
}

float DeviceTest::Uniform(float low, float high) {
  return std::uniform_real_distribution<float>(low, high)(random_);
}
int64_t DeviceTest::Integer(int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(random_);
}

std::vector<float> DeviceTest::RandomFloats(size_t count, float low, float high) {
  std::vector<float> values(count);
  for (float& value : values) value = Uniform(low, high);
  return values;
}
std::vector<int64_t> DeviceTest::RandomInts(size_t count, int64_t low, int64_t high) {
  std::vector<int64_t> values(count);
  for (int64_t& value : values) value = Integer(low, high);
  return values;
}

std::string LastError() {
  const char* text = aclGetRecentErrMsg();
  return text == nullptr ? "" : text;
}

float Rounded(aclDataType dtype, float value) {
  uint8_t bytes[4] = {};
  StoreFloat(dtype, value, bytes);
  return LoadFloat(dtype, bytes);
}

float Tolerance(aclDataType dtype, float magnitude) {
  const float unit = dtype == ACL_BF16 ? 0x1p-8f : dtype == ACL_FLOAT16 ? 0x1p-11f : 0x1p-24f;
  const float smallest = dtype == ACL_FLOAT16 ? 0x1p-25f : 0x1p-126f;  // f16 has short subnormals
  return std::abs(magnitude) * (unit + 32 * 0x1p-24f) * 1.01f + smallest;
}

double OnceRounded(aclDataType dtype, double value, double magnitude) {
  const double unit = dtype == ACL_BF16 ? 0x1p-8 : dtype == ACL_FLOAT16 ? 0x1p-11 : 0;
  const double smallest = dtype == ACL_FLOAT16 ? 0x1p-25 : 0;
  return magnitude + (std::abs(value) * unit + smallest) / (32 * 0x1p-24);  // f32 allows 32 units
}

testing::AssertionResult Near(aclDataType dtype, const std::vector<float>& actual,
                              const std::vector<double>& expected,
                              const std::vector<double>& magnitudes) {
  if (actual.size() != expected.size()) {
    return testing::AssertionFailure() << actual.size() << " elements, not " << expected.size();
  }
  double worst = 0;
  size_t at = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    const double magnitude =
        std::max(std::abs(expected[i]), magnitudes.empty() ? 0.0 : magnitudes[i]);
    const double error = std::abs(static_cast<double>(actual[i]) - expected[i]) /
                         static_cast<double>(Tolerance(dtype, static_cast<float>(magnitude)));
    if (!(error <= worst)) worst = error, at = i;
  }
  if (worst <= 1) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "element " << at << " is " << actual[at] << ", not "
                                     << expected[at] << ": " << worst << " times the tolerance";
}

}  // namespace opst::cann
