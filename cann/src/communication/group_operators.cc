// CANN's operators about a group itself: barriers, marks that tell who can be reached, and the
// reset of what is kept between calls.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <memory>
#include <vector>

#include "aclnnop/aclnn_distribute_barrier.h"
#include "aclnnop/aclnn_distribute_barrier_v2.h"
#include "aclnnop/aclnn_elastic_receivable_info_collect.h"
#include "aclnnop/aclnn_elastic_receivable_test.h"
#include "aclnnop/aclnn_moe_distribute_buffer_reset.h"
#include "cann/src/communication/elastic_info.h"
#include "cann/src/communication/group.h"
#include "cann/src/execution/call.h"
#include "cann/src/execution/run.h"
#include "cann/src/runtime/device.h"

namespace opst::cann {
namespace {

constexpr std::array kAnything = {ACL_FLOAT,  ACL_FLOAT16, ACL_BF16,  ACL_INT8,   ACL_INT32,
                                  ACL_INT64,  ACL_UINT8,   ACL_BOOL,  ACL_DOUBLE, ACL_INT16,
                                  ACL_UINT16, ACL_UINT32,  ACL_UINT64};

std::shared_ptr<Group> NamedGroup(const Call& call, const char* name, int64_t size) {
  call.RequirePointer("the group's name", name == nullptr || name[0] == '\0' ? nullptr : name);
  auto group = FindGroup(name);
  call.Shape(group != nullptr && group->size() == size,
             "the group must be that of a communicator of this size", name, ", ", size);
  return group;
}

int32_t RankHere(const Call& call, Group& group) {
  const int32_t rank = group.RankOnDevice(CurrentContext(call.name())->device);
  call.Shape(rank >= 0, "the context's device must be one of the group", group.name());
  return rank;
}

}  // namespace
}  // namespace opst::cann

using namespace opst;        // NOLINT: only the C functions follow
using namespace opst::cann;  // NOLINT

aclnnStatus aclnnDistributeBarrierGetWorkspaceSize(aclTensor* xRef, const char* group,
                                                   int64_t worldSize, uint64_t* workspaceSize,
                                                   aclOpExecutor** executor) {
  return PrepareCall("aclnnDistributeBarrier", workspaceSize, executor, [&](Call& call) -> Body {
    call.Output("xRef", xRef, kAnything);  // passes through: it only orders
    call.CheckOperands();
    const auto found = NamedGroup(call, group, worldSize);
    return [=](Run&) { found->BarrierOfAnyRank(); };
  });
}

aclnnStatus aclnnDistributeBarrierV2GetWorkspaceSize(
    const aclTensor* xRef, const aclTensor* timeOut, const aclTensor* elasticInfo,
    const char* group, int64_t worldSize, uint64_t* workspaceSize, aclOpExecutor** executor) {
  return PrepareCall("aclnnDistributeBarrierV2", workspaceSize, executor, [&](Call& call) -> Body {
    call.Input("xRef", xRef, kAnything);
    const Index limit = call.Input("timeOut", timeOut, kI32, Need::kOptional);
    const Index info = call.Input("elasticInfo", elasticInfo, kI32, Need::kOptional);
    call.CheckOperands();
    const auto found = NamedGroup(call, group, worldSize);
    if (limit != kAbsent) call.CountIs(limit, 1);
    CheckElasticInfo(call, info, worldSize);
    return [=](Run& run) {
      const int64_t microseconds = limit == kAbsent ? 0 : run.Ints(limit)[0];
      run.Value(microseconds >= 0, "timeOut must not be negative", microseconds);
      const ElasticInfo elastic = ReadElasticInfo(run, info, found->size());
      const auto among = elastic.is_smaller ? found->Among(elastic.old_ranks) : found;
      if (microseconds == 0) return among->BarrierOfAnyRank();
      among->BarrierOfAnyRank(std::chrono::microseconds(microseconds));
    };
  });
}

aclnnStatus aclnnElasticReceivableTestGetWorkspaceSize(aclTensor* dstRank, const char* group,
                                                       int64_t worldSize, int64_t rank_num,
                                                       uint64_t* workspaceSize,
                                                       aclOpExecutor** executor) {
  const char* const name = "aclnnElasticReceivableTest";
  return PrepareCall(name, workspaceSize, executor, [&](Call& call) -> Body {
    const Index targets = call.Input("dstRank", dstRank, kI32);
    call.CheckOperands();
    const auto found = NamedGroup(call, group, worldSize);
    call.Shape(rank_num >= 1 && worldSize % rank_num == 0, "rankNum must divide worldSize",
               rank_num, " of ", worldSize);
    call.ShapeIs(targets, {rank_num});
    const int32_t rank = RankHere(call, *found);
    return [=](Run& run) {  // the first target says which ranks of one server are meant
      const int32_t first = run.Indices(targets, 0, worldSize - 1)[0];
      const auto count = static_cast<int32_t>(rank_num);
      const int32_t begin = first / count * count;
      for (int32_t at = begin; at < begin + count; ++at) found->LeaveMark(rank, at);
    };
  });
}

aclnnStatus aclnnElasticReceivableInfoCollectGetWorkspaceSize(const char* group, int64_t worldSize,
                                                              aclTensor* y, uint64_t* workspaceSize,
                                                              aclOpExecutor** executor) {
  const char* const name = "aclnnElasticReceivableInfoCollect";
  return PrepareCall(name, workspaceSize, executor, [&](Call& call) -> Body {
    const Index out = call.Output("y", y, kI32);
    call.CheckOperands();
    const auto found = NamedGroup(call, group, worldSize);
    call.ShapeIs(out, {worldSize, worldSize});
    const int32_t rank = RankHere(call, *found);
    return [=](Run& run) { run.SetInts(out, found->CollectMarks(rank)); };
  });
}

aclnnStatus aclnnMoeDistributeBufferResetGetWorkspaceSize(const aclTensor* elasticInfo,
                                                          const char* groupEp, int64_t epWorldSize,
                                                          int64_t needSync, uint64_t* workspaceSize,
                                                          aclOpExecutor** executor) {
  const char* const name = "aclnnMoeDistributeBufferReset";
  return PrepareCall(name, workspaceSize, executor, [&](Call& call) -> Body {
    const Index reachable = call.Input("elasticInfo", elasticInfo, kI32);
    call.CheckOperands();
    const auto found = NamedGroup(call, groupEp, epWorldSize);
    call.ShapeIs(reachable, {epWorldSize});
    call.Shape(needSync == 0 || needSync == 1, "needSync must be 0 or 1", needSync);
    const int32_t rank = RankHere(call, *found);
    return [=](Run& run) {  // marks are all that is kept between calls here
      const auto flags = run.Indices(reachable, 0, 1);
      std::vector<int32_t> ranks;
      for (size_t i = 0; i < flags.size(); ++i) {
        if (flags[i] == 1) ranks.push_back(static_cast<int32_t>(i));
      }
      run.Value(flags[static_cast<size_t>(rank)] == 1, "a rank must be able to reach itself", rank);
      found->ForgetMarks(rank);
      if (needSync == 0) return;
      (ranks.size() == flags.size() ? found : found->Among(ranks))->BarrierOfAnyRank();
    };
  });
}

OPST_CANN_LAUNCH(aclnnDistributeBarrier)
OPST_CANN_LAUNCH(aclnnDistributeBarrierV2)
OPST_CANN_LAUNCH(aclnnElasticReceivableTest)
OPST_CANN_LAUNCH(aclnnElasticReceivableInfoCollect)
OPST_CANN_LAUNCH(aclnnMoeDistributeBufferReset)
