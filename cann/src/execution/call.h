// Phase one of an operator: its operands are declared and checked, in CANN's order, and become an
// executor. What the operator computes is the adapter's.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_CANN_EXECUTION_CALL_H_
#define OPST_CANN_EXECUTION_CALL_H_

#include <array>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "aclnn/acl_meta.h"
#include "cann/src/execution/operand.h"
#include "cann/src/runtime/failure.h"

namespace opst::cann {

class Run;
// Phase two: runs on the stream's thread.
using Body = std::function<void(Run&)>;

// Which operand of a call; kAbsent = an optional one that is not there.
using Index = int;
constexpr Index kAbsent = -1;

enum class Need : uint8_t { kRequired, kOptional };

using DataTypes = std::span<const aclDataType>;
inline constexpr std::array kFloats = {ACL_FLOAT, ACL_FLOAT16, ACL_BF16};
inline constexpr std::array kFloatsOrInt8 = {ACL_FLOAT, ACL_FLOAT16, ACL_BF16, ACL_INT8};
inline constexpr std::array kF32 = {ACL_FLOAT};
inline constexpr std::array kI8 = {ACL_INT8};
inline constexpr std::array kI32 = {ACL_INT32};
inline constexpr std::array kI64 = {ACL_INT64};
inline constexpr std::array kI32OrI64 = {ACL_INT32, ACL_INT64};
inline constexpr std::array kBools = {ACL_BOOL};
inline constexpr std::array kMaps = {ACL_BOOL, ACL_INT8, ACL_UINT8};

// An adapter declares all operands, calls CheckOperands, then checks shapes and attributes:
// null pointers are found first (161001), then dtypes and memory (161002), then the rest.
class Call {
 public:
  explicit Call(std::string_view name) : name_(name) {}

  Index Input(const char* name, const aclTensor* tensor, DataTypes dtypes,
              Need need = Need::kRequired);
  Index Output(const char* name, const aclTensor* tensor, DataTypes dtypes,
               Need need = Need::kRequired);
  // The operands of a list; a null list has none.
  std::vector<Index> Inputs(const char* name, const aclTensorList* list, DataTypes dtypes,
                            Need need = Need::kRequired);
  std::vector<Index> Outputs(const char* name, const aclTensorList* list, DataTypes dtypes,
                             Need need = Need::kRequired);
  // A pointer that is no tensor and must not be null.
  void RequirePointer(const char* name, const void* pointer) const;
  // The values of an optional array; empty when it is null. Fails when it is not live.
  std::vector<int64_t> IntArray(const char* name, const aclIntArray* array) const;
  void CheckOperands();

  const Operand& operator[](Index index) const { return operands_[static_cast<size_t>(index)]; }
  const std::string& name() const { return name_; }

  // A shape or attribute that CANN finds late: 561002.
  template <typename... Facts>
  void Shape(bool holds, std::string_view rule, const Facts&... facts) const {
    Require(holds, ACLNN_ERR_INNER_TILING_ERROR, name_, rule, facts...);
  }
  // What the wrapper itself checks: 161002.
  template <typename... Facts>
  void Param(bool holds, std::string_view rule, const Facts&... facts) const {
    Require(holds, ACLNN_ERR_PARAM_INVALID, name_, rule, facts...);
  }
  // The operand has these dims (561002); absent operands have any.
  void ShapeIs(Index index, std::initializer_list<int64_t> dims) const;
  // The number of elements alone.
  void CountIs(Index index, int64_t count) const;
  void RankIs(Index index, size_t rank) const;
  void SameDType(Index index, Index as) const;

  // Outputs behind inputs are not asked for: operands stand in the order of their declaration.
  std::vector<Operand> TakeOperands() { return std::move(operands_); }

 private:
  struct Declared {
    const aclTensor* tensor;
    DataTypes dtypes;
  };
  Index Declare(const char* name, const aclTensor* tensor, DataTypes dtypes, Need need, Role role);
  std::vector<Index> DeclareList(const char* name, const aclTensorList* list, DataTypes dtypes,
                                 Need need, Role role);

  std::string name_;
  std::vector<Operand> operands_;
  std::vector<Declared> declared_;
};

// Phase one. `check` is called with a Call and returns the Body.
aclnnStatus PrepareCall(std::string_view name, uint64_t* workspace_size, aclOpExecutor** executor,
                        const std::function<Body(Call&)>& check) noexcept;

// Phase two.
aclnnStatus LaunchCall(std::string_view name, aclOpExecutor* executor, aclrtStream stream) noexcept;

}  // namespace opst::cann

// Defines the second function of an operator.
#define OPST_CANN_LAUNCH(name)                                                     \
  aclnnStatus name(void*, uint64_t, aclOpExecutor* executor, aclrtStream stream) { \
    return ::opst::cann::LaunchCall(#name, executor, stream);                      \
  }

#endif  // OPST_CANN_EXECUTION_CALL_H_
