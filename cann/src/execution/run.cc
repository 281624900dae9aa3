// Contiguous copies of operands, and the conversions of their values.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "cann/src/execution/run.h"

#include <algorithm>
#include <cstring>

#include "cann/src/descriptors/descriptors.h"
#include "cann/src/runtime/device.h"
#include "kernels/rows.h"

namespace opst::cann {

Run::Run(std::string_view name, const std::vector<Operand>& operands)
    : name_(name), context_(OperatorContext()), operands_(operands), copies_(operands.size()) {
  for (size_t i = 0; i < operands.size(); ++i) {
    const Operand& operand = operands[i];
    std::byte* data = operand.data;
    if (operand.num_elements() > 0 && !operand.is_contiguous() && !operand.is_fractal()) {
      copies_[i].resize(operand.num_bytes());
      CopyToContiguous(operand, copies_[i].data());
      data = copies_[i].data();
    }
    data_.push_back(data);
  }
}

ConstTensorView Run::In(Index index, int64_t rows, int64_t columns) const {
  if (index == kAbsent) return {};
  return {data(index), ToDType((*this)[index].dtype), Shape{rows, columns}};
}

TensorView Run::Out(Index index, int64_t rows, int64_t columns) const {
  if (index == kAbsent) return {};
  return {data(index), ToDType((*this)[index].dtype), Shape{rows, columns}};
}

std::vector<float> Run::Floats(Index index) const {
  if (index == kAbsent) return {};
  std::vector<float> values(static_cast<size_t>((*this)[index].num_elements()));
  if (!values.empty()) {
    ConvertToFloat(ToDType((*this)[index].dtype), data(index), values.size(), values.data());
  }
  return values;
}

std::vector<int64_t> Run::Ints(Index index) const {
  if (index == kAbsent) return {};
  const auto convert = [&]<typename T>(T) {
    const auto values = Span<const T>(index);
    return std::vector<int64_t>(values.begin(), values.end());
  };
  switch ((*this)[index].dtype) {
    case ACL_INT32:
      return convert(int32_t{});
    case ACL_INT64:
      return convert(int64_t{});
    default:
      return convert(int8_t{});  // i8, u8 and bool: maps, of which only zero or not counts
  }
}

std::vector<int32_t> Run::Indices(Index index, int64_t lowest, int64_t highest) const {
  const std::vector<int64_t> values = Ints(index);
  std::vector<int32_t> indices(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    Value(values[i] >= lowest && values[i] <= highest,
          Concat((*this)[index].name, " must be ", lowest, " to ", highest), values[i],
          " at position ", i);
    indices[i] = static_cast<int32_t>(values[i]);
  }
  return indices;
}

void Run::SetFloats(Index index, std::span<const float> values) const {
  if (index == kAbsent || values.empty()) return;
  ConvertFromFloat(values.data(), values.size(), ToDType((*this)[index].dtype), data(index));
}

void Run::SetInts(Index index, std::span<const int64_t> values) const {
  if (index == kAbsent) return;
  if ((*this)[index].dtype == ACL_INT64) {
    std::copy(values.begin(), values.end(), Span<int64_t>(index).begin());
  } else {
    std::transform(values.begin(), values.end(), Span<int32_t>(index).begin(),
                   [](int64_t value) { return static_cast<int32_t>(value); });
  }
}

void Run::WriteBack() {
  for (size_t i = 0; i < operands_.size(); ++i) {
    if (operands_[i].role == Role::kOutput && !copies_[i].empty()) {
      CopyFromContiguous(copies_[i].data(), operands_[i]);
    }
  }
}

}  // namespace opst::cann
