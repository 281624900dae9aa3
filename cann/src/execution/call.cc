// Declared operands, checked in CANN's order, and the executors that phase one hands to phase two.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "cann/src/execution/call.h"

#include <algorithm>

#include "cann/src/descriptors/descriptors.h"
#include "cann/src/execution/run.h"
#include "cann/src/runtime/handles.h"
#include "cann/src/runtime/log.h"
#include "cann/src/runtime/stream.h"

struct aclOpExecutor {
  std::string name;
  std::vector<opst::cann::Operand> operands;
  opst::cann::Body body;
  bool is_repeatable = false;
};

namespace opst::cann {
namespace {

using Executors = Handles<aclOpExecutor>;

std::string Names(DataTypes dtypes) {
  std::string text;
  for (const aclDataType dtype : dtypes) text += (text.empty() ? "" : ", ") + DataTypeName(dtype);
  return text;
}

std::shared_ptr<aclOpExecutor> FindExecutor(aclOpExecutor* executor, std::string_view function) {
  Require(executor != nullptr, ACLNN_ERR_PARAM_NULLPTR, function, "the executor must not be null",
          "null");
  auto found = Executors::OfProcess().Find(executor);
  Require(found != nullptr, ACLNN_ERR_PARAM_INVALID, function,
          "an executor must come from phase one and is used once unless it is repeatable",
          static_cast<void*>(executor));
  return found;
}

// The operand that a call of aclSet…TensorAddr means.
void SetAddress(aclOpExecutor* executor, size_t index, void* address, std::string_view function,
                const Role* role) {
  const auto found = FindExecutor(executor, function);
  Require(address != nullptr, ACLNN_ERR_PARAM_NULLPTR, function, "the address must not be null",
          "null");
  size_t left = index;
  for (Operand& operand : found->operands) {
    if (role != nullptr && operand.role != *role) continue;
    if (left-- > 0) continue;
    Attach(address, function, operand);
    return;
  }
  Fail(ACLNN_ERR_PARAM_INVALID, function, "the index must be that of an operand", index);
}

}  // namespace

Index Call::Declare(const char* name, const aclTensor* tensor, DataTypes dtypes, Need need,
                    Role role) {
  if (tensor == nullptr && need == Need::kOptional) return kAbsent;
  Require(tensor != nullptr, ACLNN_ERR_PARAM_NULLPTR, name_, Concat(name, " must not be null"),
          "null");
  Operand operand;
  operand.name = name;
  operand.role = role;
  operands_.push_back(std::move(operand));
  declared_.push_back({tensor, dtypes});
  return static_cast<Index>(operands_.size()) - 1;
}

Index Call::Input(const char* name, const aclTensor* tensor, DataTypes dtypes, Need need) {
  return Declare(name, tensor, dtypes, need, Role::kInput);
}

Index Call::Output(const char* name, const aclTensor* tensor, DataTypes dtypes, Need need) {
  return Declare(name, tensor, dtypes, need, Role::kOutput);
}

std::vector<Index> Call::DeclareList(const char* name, const aclTensorList* list, DataTypes dtypes,
                                     Need need, Role role) {
  if (list == nullptr && need == Need::kOptional) return {};
  Require(list != nullptr, ACLNN_ERR_PARAM_NULLPTR, name_, Concat(name, " must not be null"),
          "null");
  const auto live = LiveTensorList(list);
  Param(live != nullptr, Concat(name, " must be a live list"), static_cast<const void*>(list));
  std::vector<Index> indices;
  for (const aclTensor* member : live->members) {
    Param(member != nullptr, Concat(name, " must have no null members"), "null");
    indices.push_back(Declare(name, member, dtypes, Need::kRequired, role));
  }
  return indices;
}

std::vector<Index> Call::Inputs(const char* name, const aclTensorList* list, DataTypes dtypes,
                                Need need) {
  return DeclareList(name, list, dtypes, need, Role::kInput);
}

std::vector<Index> Call::Outputs(const char* name, const aclTensorList* list, DataTypes dtypes,
                                 Need need) {
  return DeclareList(name, list, dtypes, need, Role::kOutput);
}

void Call::RequirePointer(const char* name, const void* pointer) const {
  Require(pointer != nullptr, ACLNN_ERR_PARAM_NULLPTR, name_, Concat(name, " must not be null"),
          "null");
}

std::vector<int64_t> Call::IntArray(const char* name, const aclIntArray* array) const {
  if (array == nullptr) return {};
  const auto live = LiveIntArray(array);
  Param(live != nullptr, Concat(name, " must be a live array"), static_cast<const void*>(array));
  return live->values;
}

void Call::CheckOperands() {
  std::vector<std::shared_ptr<aclTensor>> tensors;
  for (size_t i = 0; i < operands_.size(); ++i) {
    Operand& operand = operands_[i];
    tensors.push_back(LiveTensor(declared_[i].tensor));
    const auto& tensor = tensors.back();
    Param(tensor != nullptr, Concat(operand.name, " must be a live tensor"),
          static_cast<const void*>(declared_[i].tensor));
    operand.dims = tensor->dims;
    operand.strides = tensor->strides;
    operand.storage_dims = tensor->storage_dims;
    operand.offset = tensor->offset;
    operand.dtype = tensor->dtype;
    operand.format = tensor->format;
    const DataTypes dtypes = declared_[i].dtypes;
    Param(std::find(dtypes.begin(), dtypes.end(), operand.dtype) != dtypes.end(),
          Concat(operand.name, " must be ", Names(dtypes)), operand.Describe());
  }
  for (size_t i = 0; i < operands_.size(); ++i) Attach(tensors[i]->data, name_, operands_[i]);
}

void Call::ShapeIs(Index index, std::initializer_list<int64_t> dims) const {
  if (index == kAbsent) return;
  const Operand& operand = (*this)[index];
  const std::vector<int64_t> wanted(dims);
  Shape(operand.dims == wanted,
        Concat(operand.name, " must be ", DescribeTensor(wanted, operand.dtype)),
        operand.Describe());
}

void Call::CountIs(Index index, int64_t count) const {
  if (index == kAbsent) return;
  const Operand& operand = (*this)[index];
  Shape(operand.num_elements() == count, Concat(operand.name, " must have ", count, " elements"),
        operand.Describe());
}

void Call::RankIs(Index index, size_t rank) const {
  if (index == kAbsent) return;
  const Operand& operand = (*this)[index];
  Shape(operand.rank() == rank, Concat(operand.name, " must have ", rank, " dims"),
        operand.Describe());
}

void Call::SameDType(Index index, Index as) const {
  if (index == kAbsent || as == kAbsent) return;
  Param((*this)[index].dtype == (*this)[as].dtype,
        Concat((*this)[index].name, " must have the dtype of ", (*this)[as].name),
        (*this)[index].Describe(), " and ", (*this)[as].Describe());
}

aclnnStatus PrepareCall(std::string_view name, uint64_t* workspace_size, aclOpExecutor** executor,
                        const std::function<Body(Call&)>& check) noexcept {
  return Guard(ACLNN_ERR_INNER_TILING_ERROR, [&] {
    Require(workspace_size != nullptr && executor != nullptr, ACLNN_ERR_PARAM_NULLPTR, name,
            "workspaceSize and executor must not be null", "null");
    Call call(name);
    Body body = check(call);
    *workspace_size = 0;  // operators borrow their scratch from the context
    *executor = Executors::OfProcess().Make(
        aclOpExecutor{std::string(name), call.TakeOperands(), std::move(body)});
    if (LogEnabled(ACL_DEBUG)) Log(ACL_DEBUG, Concat(name, " is prepared"));
  });
}

aclnnStatus LaunchCall(std::string_view name, aclOpExecutor* executor,
                       aclrtStream stream) noexcept {
  return Guard(ACLNN_ERR_RUNTIME_ERROR, [&] {
    const auto found = FindExecutor(executor, name);
    Require(found->name == name, ACLNN_ERR_PARAM_INVALID, name,
            "the executor must come from phase one of the same operator", "one of ", found->name);
    std::shared_ptr<Stream> queue;
    const Outcome outcome = Try(ACLNN_ERR_RUNTIME_ERROR, [&] { queue = FindStream(stream, name); });
    if (queue == nullptr) throw Failure(ACLNN_ERR_RUNTIME_ERROR, outcome.text);
    if (!found->is_repeatable) Executors::OfProcess().Remove(executor);
    // The operands are copied: a repeatable executor may get other addresses before this has run.
    queue->Enqueue(name, [found, operands = found->operands] {
      Run run(found->name, operands);
      found->body(run);
      run.WriteBack();
    });
  });
}

}  // namespace opst::cann

using namespace opst::cann;  // NOLINT: only the C functions follow

aclnnStatus aclSetAclOpExecutorRepeatable(aclOpExecutor* executor) {
  return Guard(ACLNN_ERR_PARAM_INVALID, [&] {
    FindExecutor(executor, "aclSetAclOpExecutorRepeatable")->is_repeatable = true;
  });
}

aclnnStatus aclDestroyAclOpExecutor(aclOpExecutor* executor) {
  return Guard(ACLNN_ERR_PARAM_INVALID, [&] {
    FindExecutor(executor, "aclDestroyAclOpExecutor");
    Executors::OfProcess().Remove(executor);
  });
}

aclnnStatus aclSetInputTensorAddr(aclOpExecutor* executor, size_t index, aclTensor*, void* addr) {
  constexpr Role kRole = Role::kInput;
  return Guard(ACLNN_ERR_PARAM_INVALID,
               [&] { SetAddress(executor, index, addr, "aclSetInputTensorAddr", &kRole); });
}

aclnnStatus aclSetOutputTensorAddr(aclOpExecutor* executor, size_t index, aclTensor*, void* addr) {
  constexpr Role kRole = Role::kOutput;
  return Guard(ACLNN_ERR_PARAM_INVALID,
               [&] { SetAddress(executor, index, addr, "aclSetOutputTensorAddr", &kRole); });
}

aclnnStatus aclSetTensorAddr(aclOpExecutor* executor, size_t index, aclTensor*, void* addr) {
  return Guard(ACLNN_ERR_PARAM_INVALID,
               [&] { SetAddress(executor, index, addr, "aclSetTensorAddr", nullptr); });
}
