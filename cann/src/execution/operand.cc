// Bounds and layouts of operands: where their elements lie, and copies from one layout to another.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "cann/src/execution/operand.h"

#include <cstring>

#include "base/check.h"
#include "cann/src/descriptors/descriptors.h"
#include "cann/src/runtime/failure.h"
#include "cann/src/runtime/log.h"

namespace opst::cann {
namespace {

size_t BytesOfElements(aclDataType dtype, int64_t count) {
  const auto elements = static_cast<size_t>(count);
  return dtype == ACL_INT4 ? (elements + 1) / 2 : elements * aclDataTypeSize(dtype);
}

int64_t Product(const std::vector<int64_t>& dims) {
  int64_t product = 1;
  for (const int64_t dim : dims) product *= dim;
  return product;
}

// One past the last element of the view, counted from its base.
int64_t EndOfView(const Operand& operand, std::string_view function) {
  int64_t end = operand.offset;
  for (size_t axis = 0; axis < operand.rank(); ++axis) {
    const int64_t last = operand.dims[axis] - 1;
    const int64_t stride = operand.strides[axis];
    constexpr int64_t kLimit = int64_t{1} << 57;
    Require(stride == 0 || last <= kLimit / stride, ACLNN_ERR_PARAM_INVALID, function,
            "strides must stay below 2^57 elements", operand.Describe());
    end += last * stride;
    Require(end <= kLimit, ACLNN_ERR_PARAM_INVALID, function,
            "strides must stay below 2^57 elements", operand.Describe());
  }
  return end + 1;
}

// Calls move(contiguous byte, strided byte) for runs of the innermost dim.
template <typename Move>
void Walk(const Operand& operand, size_t axis, std::byte* strided, size_t& position,
          const Move& move) {
  const size_t size = aclDataTypeSize(operand.dtype);
  if (axis == operand.rank()) {
    move(position, strided, size);
    position += size;
    return;
  }
  const auto count = static_cast<size_t>(operand.dims[axis]);
  if (axis + 1 == operand.rank() && operand.strides[axis] == 1) {
    move(position, strided, count * size);
    position += count * size;
    return;
  }
  const size_t step = static_cast<size_t>(operand.strides[axis]) * size;
  for (size_t i = 0; i < count; ++i) Walk(operand, axis + 1, strided + i * step, position, move);
}

}  // namespace

int64_t Operand::num_elements() const { return Product(dims); }
size_t Operand::num_bytes() const { return BytesOfElements(dtype, num_elements()); }

bool Operand::is_contiguous() const {
  int64_t expected = 1;
  for (size_t axis = rank(); axis-- > 0;) {
    if (dims[axis] != 1 && strides[axis] != expected) return false;
    expected *= dims[axis];
  }
  return true;
}

std::string Operand::Describe() const { return Concat(name, " ", DescribeTensor(dims, dtype)); }

void Attach(void* base, std::string_view function, Operand& operand) {
  if (operand.num_elements() == 0) return;
  operand.memory = Memory().Find(base);
  Require(operand.memory != nullptr && operand.memory->kind == MemoryKind::kDevice,
          ACLNN_ERR_PARAM_INVALID, function, "tensors must lie in live device memory",
          operand.Describe(), " at ", base);
  const size_t size = aclDataTypeSize(operand.dtype);
  Require(size > 0 || (operand.dtype == ACL_INT4 && operand.is_contiguous()),
          ACLNN_ERR_PARAM_INVALID, function,
          "elements must be whole bytes, or int4 in a contiguous tensor", operand.Describe());
  const int64_t end = operand.is_fractal() ? operand.offset + Product(operand.storage_dims)
                                           : EndOfView(operand, function);
  const size_t bytes = BytesOfElements(operand.dtype, end);
  const size_t left = operand.memory->BytesFrom(base);
  const size_t padding = operand.memory->capacity - operand.memory->bytes;
  const bool reads_padding =
      operand.role == Role::kInput && bytes > left && bytes <= left + padding;
  Require(bytes <= left || reads_padding, ACLNN_ERR_PARAM_INVALID, function,
          "a tensor must lie inside its allocation", operand.Describe(), " of ", bytes,
          " bytes where ", left, " are left");
  if (reads_padding) {
    Log(ACL_WARNING, Concat("[", function, "] ", operand.Describe(), " reads ", bytes - left,
                            " bytes behind its allocation, up to the end of the page: zeros"));
  }
  operand.data = static_cast<std::byte*>(base) + BytesOfElements(operand.dtype, operand.offset);
}

void CopyToContiguous(const Operand& operand, std::byte* contiguous) {
  size_t position = 0;
  Walk(operand, 0, operand.data, position, [&](size_t at, const std::byte* strided, size_t bytes) {
    std::memcpy(contiguous + at, strided, bytes);
  });
}

void CopyFromContiguous(const std::byte* contiguous, const Operand& operand) {
  size_t position = 0;
  Walk(operand, 0, operand.data, position, [&](size_t at, std::byte* strided, size_t bytes) {
    std::memcpy(strided, contiguous + at, bytes);
  });
}

}  // namespace opst::cann
