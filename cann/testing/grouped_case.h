// What the tests of grouped products share: tensor lists, layouts of integers, random groups, and
// the product in fp64.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_CANN_TESTING_GROUPED_CASE_H_
#define OPST_CANN_TESTING_GROUPED_CASE_H_

#include <cmath>
#include <vector>

#include "cann/testing/device.h"
#include "cann/testing/routing_case.h"

namespace opst::cann {

inline constexpr aclDataType kDTypes[] = {ACL_FLOAT, ACL_FLOAT16, ACL_BF16};

// A list that does not take its tensors over.
struct List {
  explicit List(std::vector<const aclTensor*> members)
      : list(aclCreateTensorList(members.data(), members.size())) {}
  aclTensorList* list;  // the tensors destroy themselves, so that the list must not be destroyed
};

// Integers in any layout that CANN has for weights.
enum class Stored : uint8_t {
  kInt8,
  kInt4,
  kEightInAnInt32,
  kFractalInt8,
  kFractalInt4,
  kFractalInt32
};

inline DeviceTensor Store(Stored stored, Ints dims, const Ints& values, Layout layout) {
  const std::vector<float> floats(values.begin(), values.end());
  switch (stored) {
    case Stored::kInt8:
      return DeviceTensor::Ints(ACL_INT8, dims, values, layout);
    case Stored::kInt4:
      return DeviceTensor::Int4(dims, values);
    case Stored::kFractalInt8:
      return DeviceTensor::Fractal(ACL_INT8, dims, floats);
    case Stored::kFractalInt4:
      return DeviceTensor::Fractal(ACL_INT4, dims, floats);
    case Stored::kFractalInt32:
      return DeviceTensor::Fractal(ACL_INT32, dims, floats);
    case Stored::kEightInAnInt32:
      break;
  }
  Ints packed(values.size() / 8, 0);
  for (size_t i = 0; i < values.size(); ++i) packed[i / 8] |= (values[i] & 15) << (i % 8 * 4);
  dims.back() /= 8;
  return DeviceTensor::Ints(ACL_INT32, dims, packed, layout);
}

class GroupedCaseTest : public DeviceTest {
 protected:
  std::vector<float> Values(aclDataType dtype, int64_t count) {
    std::vector<float> values = RandomFloats(At(count), -1, 1);
    for (float& value : values) value = Rounded(dtype, value);
    return values;
  }
  // Counts of the groups of at most `rows` rows.
  Ints Counts(int64_t groups, int64_t rows) {
    Ints counts;
    for (int64_t g = 0; g < groups; ++g) {
      counts.push_back(Integer(0, rows));
      rows -= counts.back();
    }
    return counts;
  }
};

// rows · W of [begin, end), in fp64, and the magnitudes.
inline Sums Product(const std::vector<float>& x, const std::vector<float>& w, int64_t begin,
                    int64_t end, int64_t inner, int64_t columns, int64_t first_weight) {
  Sums sums;
  for (int64_t row = begin; row < end; ++row) {
    for (int64_t n = 0; n < columns; ++n) {
      double sum = 0, magnitude = 0;
      for (int64_t k = 0; k < inner; ++k) {
        const double term =
            static_cast<double>(x[At(row * inner + k)]) * w[At(first_weight + k * columns + n)];
        sum += term;
        magnitude += std::abs(term);
      }
      sums.values.push_back(sum);
      sums.magnitudes.push_back(magnitude);
    }
  }
  return sums;
}

}  // namespace opst::cann

#endif  // OPST_CANN_TESTING_GROUPED_CASE_H_
