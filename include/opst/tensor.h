// Borrowed, typed, strided views of memory and an owner for them; no operators.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_TENSOR_H_
#define OPST_TENSOR_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "opst/dtype.h"

namespace opst {

// Extents of up to four dimensions, outermost first. Extents are never negative and their product,
// in bytes of any element type, fits int64 (checked at construction).
class Shape {
 public:
  static constexpr size_t kMaxRank = 4;

  Shape() = default;
  Shape(std::initializer_list<int64_t> dims);
  explicit Shape(std::span<const int64_t> dims);

  size_t rank() const { return rank_; }
  int64_t operator[](size_t axis) const { return dims_[axis]; }
  int64_t num_elements() const;
  bool operator==(const Shape& other) const = default;
  // "[8,14336,4096]"
  std::string ToString() const;

 private:
  std::array<int64_t, kMaxRank> dims_{};
  size_t rank_ = 0;
};

// A read-only view. Rows (all dims but the last) may be strided, elements of a row are contiguous.
// The memory must outlive the view.
class ConstTensorView {
 public:
  ConstTensorView() = default;
  // Contiguous, row-major.
  ConstTensorView(const void* data, DType dtype, Shape shape);
  // 2-D with rows `row_stride` elements apart; row_stride >= shape[1], and all rows together must
  // fit a Shape. Throws kInvalidArgument.
  ConstTensorView(const void* data, DType dtype, Shape shape, int64_t row_stride);
  template <typename T>
  ConstTensorView(const T* data, Shape shape) : ConstTensorView(data, DTypeOf<T>::value, shape) {}

  const void* data() const { return data_; }
  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  size_t rank() const { return shape_.rank(); }
  int64_t dim(size_t axis) const { return shape_[axis]; }
  int64_t row_stride() const { return row_stride_; }
  bool is_contiguous() const;
  // Bytes of a contiguous tensor of this shape.
  size_t num_bytes() const;
  const std::byte* row(int64_t index) const;
  // Whether an element of this view shares a byte with one of the other. Views whose rows lie
  // between each other's (columns of one matrix) are told apart when their row strides are equal.
  bool Overlaps(const ConstTensorView& other) const;
  template <typename T>
  const T* as() const {
    return static_cast<const T*>(data_);
  }
  // "[512,4096] bf16", for error texts.
  std::string ToString() const;

 protected:
  const void* data_ = nullptr;
  DType dtype_ = DType::kF32;
  Shape shape_;
  int64_t row_stride_ = 0;
};

// The same, writable.
class TensorView : public ConstTensorView {
 public:
  TensorView() = default;
  TensorView(void* data, DType dtype, Shape shape) : ConstTensorView(data, dtype, shape) {}
  TensorView(void* data, DType dtype, Shape shape, int64_t row_stride)
      : ConstTensorView(data, dtype, shape, row_stride) {}
  template <typename T>
  requires(!std::is_const_v<T>) TensorView(T* data, Shape shape) : ConstTensorView(data, shape) {}

  void* mutable_data() const { return const_cast<void*>(data_); }
  std::byte* mutable_row(int64_t index) const { return const_cast<std::byte*>(row(index)); }
  template <typename T>
  T* mutable_as() const {
    return static_cast<T*>(mutable_data());
  }
};

// Owns zeroed memory, 64-byte aligned; large ones ask for 2 MB pages. Movable, not copyable.
class Tensor {
 public:
  Tensor() = default;
  // Throws kOutOfMemory.
  Tensor(DType dtype, Shape shape);
  Tensor(Tensor&& other) noexcept
      : memory_(std::move(other.memory_)), view_(std::exchange(other.view_, {})) {}
  Tensor& operator=(Tensor&& other) noexcept {
    memory_ = std::move(other.memory_);
    view_ = std::exchange(other.view_, {});
    return *this;
  }

  TensorView view() const { return view_; }
  operator TensorView() const { return view_; }  // NOLINT: a Tensor is passed where a view is asked
  const Shape& shape() const { return view_.shape(); }
  DType dtype() const { return view_.dtype(); }
  template <typename T>
  T* as() const {
    return view_.mutable_as<T>();
  }

 private:
  std::shared_ptr<std::byte> memory_;
  TensorView view_;
};

}  // namespace opst

#endif  // OPST_TENSOR_H_
