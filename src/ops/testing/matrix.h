// A matrix of any model float type that owns its memory, with gaps between the rows that must stay
// untouched; for tests only.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_OPS_TESTING_MATRIX_H_
#define OPST_OPS_TESTING_MATRIX_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "opst/dtype.h"
#include "opst/tensor.h"

namespace opst {

class Matrix {
 public:
  // Elements start as a pattern that is a large negative number in every type, so that an element
  // that nobody wrote shows. `gap` elements stand behind every row.
  Matrix(DType dtype, int64_t rows, int64_t columns, int64_t gap = 0)
      : dtype_(dtype),
        rows_(rows),
        columns_(columns),
        stride_(columns + gap),
        bytes_(static_cast<size_t>(rows * stride_) * ByteSize(dtype), kUnwritten) {}

  // Normal values of deviation `scale`, on the grid of the type.
  static Matrix Random(DType dtype, int64_t rows, int64_t columns, uint32_t seed, double scale = 1,
                       int64_t gap = 0) {
    Matrix matrix(dtype, rows, columns, gap);
    std::mt19937 random(seed);
    std::normal_distribution<double> normal(0, scale);
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t column = 0; column < columns; ++column) matrix.Set(row, column, normal(random));
    }
    return matrix;
  }

  DType dtype() const { return dtype_; }
  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }

  TensorView view() { return FirstRows(rows_); }
  ConstTensorView view() const { return {bytes_.data(), dtype_, Shape{rows_, columns_}, stride_}; }
  TensorView FirstRows(int64_t count) {
    return {bytes_.data(), dtype_, Shape{count, columns_}, stride_};
  }
  // Rows from `begin` on.
  TensorView Rows(int64_t begin, int64_t count) {
    return {view().mutable_row(begin), dtype_, Shape{count, columns_}, stride_};
  }
  // [E, rows / E, columns]; without gaps only.
  ConstTensorView Stacked(int64_t num_experts) const {
    return {bytes_.data(), dtype_, Shape{num_experts, rows_ / num_experts, columns_}};
  }

  double At(int64_t row, int64_t column) const {
    const std::byte* place = Place(row, column);
    if (dtype_ == DType::kF32) {
      float value = 0;
      std::memcpy(&value, place, sizeof(value));
      return value;
    }
    uint16_t bits = 0;
    std::memcpy(&bits, place, sizeof(bits));
    return dtype_ == DType::kBf16 ? ToFloat(Bf16{bits}) : ToFloat(F16{bits});
  }

  void Set(int64_t row, int64_t column, double value) {
    std::byte* place = const_cast<std::byte*>(Place(row, column));
    const auto number = static_cast<float>(value);
    if (dtype_ == DType::kF32) {
      std::memcpy(place, &number, sizeof(number));
      return;
    }
    const uint16_t bits = dtype_ == DType::kBf16 ? ToBf16(number).bits : ToF16(number).bits;
    std::memcpy(place, &bits, sizeof(bits));
  }

  void Fill(double value) {
    for (int64_t row = 0; row < rows_; ++row) {
      for (int64_t column = 0; column < columns_; ++column) Set(row, column, value);
    }
  }

  std::vector<double> Row(int64_t row) const {
    std::vector<double> values(static_cast<size_t>(columns_));
    for (int64_t i = 0; i < columns_; ++i) values[static_cast<size_t>(i)] = At(row, i);
    return values;
  }

  bool HasSameBits(int64_t row, const Matrix& other, int64_t other_row) const {
    return std::memcmp(Place(row, 0), other.Place(other_row, 0), RowBytes()) == 0;
  }
  bool HasSameBits(const Matrix& other) const {
    for (int64_t row = 0; row < rows_; ++row) {
      if (!HasSameBits(row, other, row)) return false;
    }
    return rows_ == other.rows_ && columns_ == other.columns_;
  }

  // Whether all rows from `first_row` on are as the constructor left them.
  bool IsUnwritten(int64_t first_row) const {
    const std::vector<std::byte> wanted(RowBytes(), kUnwritten);
    for (int64_t row = first_row; row < rows_; ++row) {
      if (std::memcmp(Place(row, 0), wanted.data(), wanted.size()) != 0) return false;
    }
    return true;
  }
  bool HasUntouchedGaps() const {
    const std::vector<std::byte> wanted(static_cast<size_t>(stride_ - columns_) * ByteSize(dtype_),
                                        kUnwritten);
    for (int64_t row = 0; row < rows_; ++row) {
      if (std::memcmp(Place(row, columns_), wanted.data(), wanted.size()) != 0) return false;
    }
    return true;
  }

 private:
  static constexpr std::byte kUnwritten{0xCC};

  size_t RowBytes() const { return static_cast<size_t>(columns_) * ByteSize(dtype_); }
  const std::byte* Place(int64_t row, int64_t column) const {
    return bytes_.data() + static_cast<size_t>(row * stride_ + column) * ByteSize(dtype_);
  }

  DType dtype_;
  int64_t rows_;
  int64_t columns_;
  int64_t stride_;
  std::vector<std::byte> bytes_;
};

}  // namespace opst

#endif  // OPST_OPS_TESTING_MATRIX_H_
