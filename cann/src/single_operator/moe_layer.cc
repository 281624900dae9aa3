// "moe_v2": the whole MoE layer behind the calls that articles print.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <map>
#include <string>
#include <string_view>

#include "acl/acl_op.h"
#include "acl/acl_rt.h"
#include "cann/src/descriptors/descriptors.h"
#include "cann/src/descriptors/tensor_desc.h"
#include "cann/src/runtime/device.h"
#include "cann/src/runtime/failure.h"
#include "cann/src/runtime/handles.h"
#include "cann/src/runtime/memory.h"
#include "opst/ops/gating.h"
#include "opst/ops/grouped_matmul.h"
#include "opst/ops/moe_ffn.h"
#include "opst/pack.h"

struct aclopHandle {
  std::map<std::string, aclTensorDesc, std::less<>> operands;
  std::map<std::string, int64_t, std::less<>> attributes;
};

namespace opst::cann {
namespace {

constexpr std::string_view kName = "moe_v2";
constexpr std::array<std::string_view, 5> kOperands = {"x", "w_router", "w_gate_up", "w_down", "y"};
constexpr std::array<std::string_view, 4> kAttributes = {"experts_num", "top_k", "renormalize",
                                                         "threshold_gating"};
using OperatorHandles = Handles<aclopHandle>;

thread_local aclopHandle* t_newest = nullptr;

template <size_t kCount>
void CheckName(std::string_view name, const std::array<std::string_view, kCount>& known,
               const char* function) {
  for (const std::string_view one : known) {
    if (one == name) return;
  }
  std::string names;
  for (const std::string_view one : known) names += Concat(names.empty() ? "" : ", ", one);
  Fail(ACL_ERROR_INVALID_PARAM, function, Concat("the name must be one of: ", names), name);
}

std::shared_ptr<aclopHandle> FindHandle(aclopHandle* handle, const char* function) {
  auto found = OperatorHandles::OfProcess().Find(handle);
  Require(found != nullptr, ACL_ERROR_INVALID_PARAM, function, "the handle must be live",
          static_cast<void*>(handle));
  return found;
}

// The operand as a view of this rank, its memory checked.
TensorView ViewOf(const aclopHandle& handle, std::string_view name, size_t rank) {
  const auto found = handle.operands.find(name);
  Require(found != handle.operands.end(), ACL_ERROR_INVALID_PARAM, kName,
          "x, w_router, w_gate_up, w_down and y must be given", Concat("no ", name));
  const aclTensorDesc& desc = found->second;
  Require(desc.dims.size() == rank, ACL_ERROR_INVALID_PARAM, kName,
          Concat(name, " must have ", rank, " dims"), DescribeTensor(desc.dims, desc.dtype));
  const TensorView view(desc.buffer.data, ToDType(desc.dtype), Shape(std::span(desc.dims)));
  const auto block = Memory().Find(desc.buffer.data);
  Require(block != nullptr && view.num_bytes() <= desc.buffer.bytes &&
              view.num_bytes() <= block->BytesFrom(desc.buffer.data),
          ACL_ERROR_INVALID_PARAM, kName, Concat(name, " must lie inside its device memory"),
          DescribeTensor(desc.dims, desc.dtype), " in ", desc.buffer.bytes, " bytes");
  return view;
}

int64_t Attribute(const aclopHandle& handle, std::string_view name, int64_t otherwise) {
  const auto found = handle.attributes.find(name);
  return found == handle.attributes.end() ? otherwise : found->second;
}

WeightFormat Keeps(ConstTensorView weights) { return FormatOf(weights.dtype()); }

// logits = x · w_router; the plan of its top k, or of those above 1/E; then the gated experts.
void RunLayer(const aclopHandle& handle) {
  const Context& context = OperatorContext();
  const TensorView x = ViewOf(handle, "x", 2), router = ViewOf(handle, "w_router", 2);
  const TensorView gate_up = ViewOf(handle, "w_gate_up", 3), down = ViewOf(handle, "w_down", 3);
  const TensorView y = ViewOf(handle, "y", 2);
  const int64_t experts = Attribute(handle, "experts_num", router.dim(0));
  Require(experts == router.dim(0) && experts == gate_up.dim(0) && experts == down.dim(0),
          ACL_ERROR_INVALID_PARAM, kName, "experts_num must be that of all weights", experts,
          " for ", router.ToString(), ", ", gate_up.ToString(), ", ", down.ToString());
  const ConstTensorView one(router.data(), router.dtype(), Shape{1, router.dim(0), router.dim(1)});
  const Tensor logits(DType::kF32, Shape{x.dim(0), experts});
  Matmul(context, x, PackExperts(context, one, Keeps(router), PanelOrder::kPlain), logits);
  GatingOptions options{.top_k = Attribute(handle, "top_k", 2)};
  options.renormalizes = Attribute(handle, "renormalize", 1) != 0;
  if (Attribute(handle, "threshold_gating", 0) != 0) {
    options.selection.rule = SelectionRule::kThreshold;
  }
  const RoutingPlan plan = Route(context, logits.view(), options);
  const ExpertWeights weights{PackExperts(context, gate_up, Keeps(gate_up), PanelOrder::kGateUp),
                              PackExperts(context, down, Keeps(down), PanelOrder::kPlain)};
  MoeFfn(context, x, plan, weights, {}, y);
}

}  // namespace
}  // namespace opst::cann

using namespace opst;        // NOLINT: only the C functions follow
using namespace opst::cann;  // NOLINT

aclopHandle* aclopCreateHandle(const char* opType) {
  aclopHandle* made = nullptr;
  Guard(ACL_ERROR_INVALID_PARAM, [&] {
    Require(opType != nullptr && opType == kName, ACL_ERROR_OP_NOT_FOUND, "aclopCreateHandle",
            "the operator must be moe_v2", opType == nullptr ? "null" : opType);
    made = t_newest = OperatorHandles::OfProcess().Make();
  });
  return made;
}

void aclopDestroyHandle(aclopHandle* handle) { OperatorHandles::OfProcess().Remove(handle); }

aclError aclSetTensorDesc(const aclTensorDesc* desc) {
  return Guard(ACL_ERROR_INVALID_PARAM, [&] {
    const auto handle = FindHandle(t_newest, "aclSetTensorDesc");
    const auto live = Handles<aclTensorDesc>::OfProcess().Find(desc);
    Require(live != nullptr, ACL_ERROR_INVALID_PARAM, "aclSetTensorDesc",
            "the description must be live", static_cast<const void*>(desc));
    CheckName(live->name, kOperands, "aclSetTensorDesc");
    handle->operands[live->name] = *live;
  });
}

aclError aclSetAttrInt(aclopHandle* handle, const char* attrName, int64_t attrValue) {
  return Guard(ACL_ERROR_INVALID_PARAM, [&] {
    const auto found = FindHandle(handle, "aclSetAttrInt");
    CheckName(attrName == nullptr ? "null" : attrName, kAttributes, "aclSetAttrInt");
    found->attributes[attrName] = attrValue;
  });
}

aclError aclopExecute(aclopHandle* handle) {
  return Guard(ACL_ERROR_INVALID_PARAM, [&] { RunLayer(*FindHandle(handle, "aclopExecute")); });
}
