// Phase two of an operator as its body sees it: operands as contiguous memory, and their values.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_CANN_EXECUTION_RUN_H_
#define OPST_CANN_EXECUTION_RUN_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cann/src/execution/call.h"
#include "opst/context.h"
#include "opst/tensor.h"

namespace opst::cann {

// Inputs that are not contiguous are copied; outputs are written to a copy of what they held, and
// go back into their own layout at the end.
class Run {
 public:
  Run(std::string_view name, const std::vector<Operand>& operands);

  const std::string& name() const { return name_; }
  const Context& context() const { return context_; }
  const Operand& operator[](Index index) const { return operands_[static_cast<size_t>(index)]; }

  std::byte* data(Index index) const { return data_[static_cast<size_t>(index)]; }
  template <typename T>
  std::span<T> Span(Index index) const {
    return {reinterpret_cast<T*>(data(index)), static_cast<size_t>((*this)[index].num_elements())};
  }
  // The operand as a matrix of its own dtype; an empty view when it is absent.
  ConstTensorView In(Index index, int64_t rows, int64_t columns) const;
  TensorView Out(Index index, int64_t rows, int64_t columns) const;

  // Values of any float or integer dtype. An absent operand has none.
  std::vector<float> Floats(Index index) const;
  std::vector<int64_t> Ints(Index index) const;
  // The same, each within 0 … limit-1 or one of the two sentinels below and above: -1 if
  // `lowest` is -1, `limit` if `highest` is. Fails naming position and value.
  std::vector<int32_t> Indices(Index index, int64_t lowest, int64_t highest) const;

  // Rounded to nearest even, into any float dtype; absent operands are passed over.
  void SetFloats(Index index, std::span<const float> values) const;
  // Into i32 or i64.
  void SetInts(Index index, std::span<const int64_t> values) const;

  // A value that is not allowed: an error of the stream.
  template <typename... Facts>
  void Value(bool holds, std::string_view rule, const Facts&... facts) const {
    Require(holds, ACL_ERROR_RT_AICORE_EXCEPTION, name_, rule, facts...);
  }

  void WriteBack();

 private:
  std::string name_;
  const Context& context_;
  const std::vector<Operand>& operands_;
  std::vector<std::byte*> data_;
  std::vector<std::vector<std::byte>> copies_;  // empty for contiguous operands
};

}  // namespace opst::cann

#endif  // OPST_CANN_EXECUTION_RUN_H_
