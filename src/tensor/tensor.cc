// Shape arithmetic with overflow checks, views and the owner; no element is touched here.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "opst/tensor.h"

#include <limits>

#include "base/check.h"
#include "base/memory.h"

namespace opst {
namespace {

// The widest element type is 8 bytes, so byte counts of any dtype fit when this holds.
constexpr int64_t kMaxElements = std::numeric_limits<int64_t>::max() / 8;

}  // namespace

Shape::Shape(std::initializer_list<int64_t> dims)
    : Shape(std::span<const int64_t>(dims.begin(), dims.size())) {}

Shape::Shape(std::span<const int64_t> dims) : rank_(dims.size()) {
  OPST_CHECK_ARG(dims.size() <= kMaxRank, "shape", "a tensor has at most 4 dimensions",
                 dims.size());
  int64_t elements = 1;
  for (size_t axis = 0; axis < rank_; ++axis) {
    const int64_t extent = dims[axis];
    OPST_CHECK_ARG(extent >= 0, "shape", "extents must not be negative", extent, " at axis ", axis);
    OPST_CHECK_ARG(extent == 0 || elements <= kMaxElements / extent, "shape",
                   "the number of bytes must fit 63 bits", extent, " at axis ", axis);
    if (extent != 0) elements *= extent;
    dims_[axis] = extent;
  }
}

int64_t Shape::num_elements() const {
  int64_t elements = 1;
  for (size_t axis = 0; axis < rank_; ++axis) elements *= dims_[axis];
  return elements;
}

std::string Shape::ToString() const {
  std::string text = "[";
  for (size_t axis = 0; axis < rank_; ++axis) {
    if (axis > 0) text += ',';
    text += std::to_string(dims_[axis]);
  }
  return text + "]";
}

ConstTensorView::ConstTensorView(const void* data, DType dtype, Shape shape)
    : data_(data), dtype_(dtype), shape_(shape) {
  row_stride_ = rank() == 0 ? 1 : dim(rank() - 1);
}

ConstTensorView::ConstTensorView(const void* data, DType dtype, Shape shape, int64_t row_stride)
    : data_(data), dtype_(dtype), shape_(shape), row_stride_(row_stride) {
  OPST_CHECK_ARG(rank() == 2, "tensor", "a strided view has two dimensions", shape.ToString());
  OPST_CHECK_ARG(row_stride >= shape[1], "tensor", "rows must not overlap", "row stride ",
                 row_stride, " for rows of ", shape[1]);
  const Shape with_gaps{shape[0], row_stride};  // throws when offsets would not fit
}

bool ConstTensorView::is_contiguous() const {
  return rank() == 0 || row_stride_ == dim(rank() - 1);
}

size_t ConstTensorView::num_bytes() const {
  return static_cast<size_t>(shape_.num_elements()) * ByteSize(dtype_);
}

const std::byte* ConstTensorView::row(int64_t index) const {
  return static_cast<const std::byte*>(data_) +
         static_cast<size_t>(index * row_stride_) * ByteSize(dtype_);
}

bool ConstTensorView::Overlaps(const ConstTensorView& other) const {
  if (shape_.num_elements() == 0 || other.shape_.num_elements() == 0) return false;
  struct Extent {
    uintptr_t begin, end;
    uint64_t row_bytes, stride_bytes;
  };
  const auto extent_of = [](const ConstTensorView& view) {
    const size_t element = ByteSize(view.dtype_);
    const int64_t columns = view.rank() == 0 ? 1 : view.dim(view.rank() - 1);
    const int64_t rows = view.shape_.num_elements() / columns;
    const auto begin = reinterpret_cast<uintptr_t>(view.data_);
    const uint64_t row_bytes = static_cast<uint64_t>(columns) * element;
    const uint64_t stride_bytes = static_cast<uint64_t>(view.row_stride_) * element;
    return Extent{begin, begin + static_cast<uint64_t>(rows - 1) * stride_bytes + row_bytes,
                  row_bytes, stride_bytes};
  };
  const Extent a = extent_of(*this);
  const Extent b = extent_of(other);
  if (a.end <= b.begin || b.end <= a.begin) return false;
  if (a.stride_bytes != b.stride_bytes) return true;
  // Where b's rows begin within a's stride.
  const uint64_t stride = a.stride_bytes;
  const uint64_t offset = b.begin >= a.begin ? (b.begin - a.begin) % stride
                                             : (stride - (a.begin - b.begin) % stride) % stride;
  return offset < a.row_bytes || offset + b.row_bytes > stride;
}

std::string ConstTensorView::ToString() const {
  return Concat(shape_.ToString(), " ", Name(dtype_));
}

Tensor::Tensor(DType dtype, Shape shape) {
  const size_t bytes = static_cast<size_t>(shape.num_elements()) * ByteSize(dtype);
  auto buffer = std::make_shared<AlignedBuffer>(bytes);
  memory_ = std::shared_ptr<std::byte>(buffer, buffer->data());
  view_ = TensorView(memory_.get(), dtype, shape);
}

}  // namespace opst
