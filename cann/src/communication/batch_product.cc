// CANN's batched products of full capacity, over expert parallel and tensor parallel ranks: tokens
// come to their experts before the product, or go home after it.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "aclnnop/aclnn_all_to_all_all_gather_batch_matmul.h"
#include "aclnnop/aclnn_batch_matmul_reduce_scatter_all_to_all.h"
#include "cann/src/communication/group.h"
#include "cann/src/descriptors/descriptors.h"
#include "cann/src/execution/call.h"
#include "cann/src/execution/run.h"
#include "cann/src/gmm/matrix_product.h"
#include "cann/src/runtime/device.h"
#include "kernels/rows.h"

namespace opst::cann {
namespace {

constexpr std::array kHalves = {ACL_FLOAT16, ACL_BF16};

// This rank among the ranks that share out experts, and those that share out columns.
struct Rank {
  std::shared_ptr<Group> group;
  int64_t size = 0;
  int32_t index = 0;
};

// Tokens stand as [E,C',H'] with their rank, of which one dim is a tp-th of the whole; with the
// experts as [e,ep·C,H] or the same with M for H.
struct Operands {
  Index x = kAbsent, weight = kAbsent, bias = kAbsent, y = kAbsent, rows = kAbsent, sums = kAbsent;
  Rank ep, tp;
  bool splits_capacity = false;  // else the hidden dim
  int64_t experts = 0;           // of this rank, e
  int64_t capacity = 0;          // C' of a token tensor
  int64_t width = 0;             // H' of it
  int64_t inner = 0, columns = 0;

  int64_t full_capacity() const { return capacity * (splits_capacity ? tp.size : 1); }
  int64_t num_rows() const { return ep.size * full_capacity(); }  // of an expert
};

// A rank's share, and the dims that all must agree on.
struct Share {
  std::vector<int64_t> dims;
  std::vector<float> values;
};

std::vector<std::shared_ptr<const Share>> Exchange(const Run& run, const Rank& rank,
                                                   const Operands& operands,
                                                   std::vector<float> values) {
  auto mine = std::make_shared<Share>();
  mine->dims = {operands.experts, operands.capacity, operands.width,
                operands.ep.size, operands.tp.size,  operands.splits_capacity ? 1 : 0};
  mine->values = std::move(values);
  auto all = rank.group->ExchangeAs<Share>(rank.index, mine);
  for (size_t i = 0; i < all.size(); ++i) {
    run.Value(all[i]->dims == mine->dims, "all ranks must have tensors of the same dims",
              all[i]->values.size(), " numbers on rank ", i, ", ", mine->values.size(), " here");
  }
  return all;
}

// Copies `height` lines of `width` numbers.
void CopyBlock(const float* from, int64_t from_stride, float* to, int64_t to_stride, int64_t height,
               int64_t width) {
  for (int64_t i = 0; i < height; ++i)
    std::copy_n(from + i * from_stride, width, to + i * to_stride);
}

// Tokens of all ranks for this rank's experts, [e,ep·C,H].
std::vector<float> Gather(const Run& run, const Operands& operands) {
  const int64_t block = operands.capacity * operands.width, tp = operands.tp.size;
  const auto from_ep = Exchange(run, operands.ep, operands, run.Floats(operands.x));
  std::vector<float> mine(static_cast<size_t>(operands.experts * operands.ep.size * block));
  for (int64_t e = 0; e < operands.experts; ++e) {
    for (int64_t q = 0; q < operands.ep.size; ++q) {
      const std::vector<float>& theirs = from_ep[static_cast<size_t>(q)]->values;
      std::copy_n(theirs.begin() + (operands.ep.index * operands.experts + e) * block, block,
                  mine.begin() + (e * operands.ep.size + q) * block);
    }
  }
  const int64_t num_blocks = operands.experts * operands.ep.size;
  const auto from_tp = Exchange(run, operands.tp, operands, std::move(mine));
  std::vector<float> all(static_cast<size_t>(num_blocks * tp * block));
  for (int64_t i = 0; i < num_blocks; ++i) {
    for (int64_t t = 0; t < tp; ++t) {
      const float* const from = from_tp[static_cast<size_t>(t)]->values.data() + i * block;
      float* const to = all.data() + i * tp * block;
      if (operands.splits_capacity) {
        std::copy_n(from, block, to + t * block);
      } else {
        CopyBlock(from, operands.width, to + t * operands.width, tp * operands.width,
                  operands.capacity, operands.width);
      }
    }
  }
  return all;
}

// [e,rows,K] · [e,K,N] in f32, with bias [e,N] or none.
std::vector<float> Multiply(const Run& run, const Operands& operands, const std::vector<float>& x,
                            const std::vector<float>& bias) {
  const int64_t rows = operands.num_rows(), inner = operands.inner, columns = operands.columns;
  const DType dtype = ToDType(run[operands.weight].dtype);
  std::vector<float> result(static_cast<size_t>(operands.experts * rows * columns));
  for (int64_t e = 0; e < operands.experts; ++e) {
    const std::byte* const weight =
        run.data(operands.weight) + static_cast<size_t>(e * inner * columns) * ByteSize(dtype);
    std::span<const float> shift;
    if (!bias.empty())
      shift =
          std::span(bias).subspan(static_cast<size_t>(e * columns), static_cast<size_t>(columns));
    MultiplyFloats(run.context(), ConstTensorView(x.data() + e * rows * inner, Shape{rows, inner}),
                   ConstTensorView(weight, dtype, Shape{inner, columns}), shift,
                   TensorView(result.data() + e * rows * columns, Shape{rows, columns}));
  }
  return result;
}

// The part of [e,ep,C,H] that is this rank's, added up over the tensor parallel ranks in their
// order: [e,ep,C',H'].
std::vector<float> ReduceScatter(const Run& run, const Operands& operands,
                                 std::vector<float> products) {
  const auto all = Exchange(run, operands.tp, operands, std::move(products));
  const int64_t block = operands.capacity * operands.width, whole = block * operands.tp.size;
  const int64_t num_blocks = operands.experts * operands.ep.size;
  const bool splits_rows = operands.splits_capacity;
  const int64_t first = operands.tp.index * (splits_rows ? block : operands.width);
  const int64_t stride = splits_rows ? operands.width : operands.width * operands.tp.size;
  std::vector<float> sums(static_cast<size_t>(num_blocks * block), 0.0f);
  for (const auto& share : all) {
    for (int64_t i = 0; i < num_blocks * operands.capacity; ++i) {
      const int64_t line = i / operands.capacity * whole + i % operands.capacity * stride + first;
      const float* const from = share->values.data() + line;
      float* const to = sums.data() + i * operands.width;
      for (int64_t h = 0; h < operands.width; ++h) to[h] += from[h];
    }
  }
  return sums;
}

// Rows of all experts for this rank's tokens: [e,ep,C',H'] of each rank becomes [E,C',H'].
std::vector<float> SendHome(const Run& run, const Operands& operands, std::vector<float> sums) {
  const auto all = Exchange(run, operands.ep, operands, std::move(sums));
  const int64_t block = operands.capacity * operands.width, ep = operands.ep.size;
  std::vector<float> result(static_cast<size_t>(operands.experts * ep * block));
  for (int64_t q = 0; q < ep; ++q) {
    for (int64_t e = 0; e < operands.experts; ++e) {
      std::copy_n(
          all[static_cast<size_t>(q)]->values.begin() + (e * ep + operands.ep.index) * block, block,
          result.begin() + (q * operands.experts + e) * block);
    }
  }
  return result;
}

Rank FindRank(const Call& call, const char* name, int64_t size) {
  Rank rank;
  rank.group = FindGroup(name);
  call.Param(rank.group != nullptr && rank.group->size() == size,
             "groupEp and groupTp must be communicators of epWorldSize and tpWorldSize ranks", name,
             " of ", size);
  rank.size = size;
  rank.index = rank.group->RankOnDevice(CurrentContext(call.name())->device);
  call.Param(rank.index >= 0, "the context's device must be one of both groups", name);
  return rank;
}

// What both operators declare and check before their shapes.
struct Arguments {
  const aclTensor *x, *weight, *bias;
  const char *ep, *tp;
  int64_t ep_size, tp_size, shard_type;
  const aclTensor *y, *rows, *sums;
};

Operands Declare(Call& call, const Arguments& arguments) {
  Operands operands;
  operands.x = call.Input("x", arguments.x, kHalves);
  operands.weight = call.Input("weight", arguments.weight, kHalves);
  operands.bias = call.Input("bias", arguments.bias, kFloats, Need::kOptional);
  operands.y = call.Output("y1Out", arguments.y, kHalves);
  operands.rows = call.Output("y2Out", arguments.rows, kHalves, Need::kOptional);
  operands.sums = call.Output("y3Out", arguments.sums, kHalves, Need::kOptional);
  for (const char* const name : {arguments.ep, arguments.tp}) {
    call.RequirePointer("the group's name", name == nullptr || name[0] == '\0' ? nullptr : name);
  }
  call.CheckOperands();
  for (const Index index : {operands.weight, operands.y, operands.rows, operands.sums}) {
    call.SameDType(index, operands.x);
  }
  const bool is_half = call[operands.x].dtype == ACL_FLOAT16;
  call.Param(
      operands.bias == kAbsent || call[operands.bias].dtype == (is_half ? ACL_FLOAT16 : ACL_FLOAT),
      "bias must be f16 for f16, f32 for bf16",
      operands.bias == kAbsent ? "" : call[operands.bias].Describe());
  call.Param(arguments.shard_type == 0 || arguments.shard_type == 1,
             "the shard type must be 0 or 1", arguments.shard_type);
  call.Param(std::strcmp(arguments.ep, arguments.tp) != 0, "groupEp and groupTp must differ",
             arguments.ep);
  operands.splits_capacity = arguments.shard_type == 1;
  operands.ep = FindRank(call, arguments.ep, arguments.ep_size);
  operands.tp = FindRank(call, arguments.tp, arguments.tp_size);
  return operands;
}

// Shapes, from the tensor [E,C',H'] of tokens; `is_inner`: H is the inner dim of the product.
void CheckShapes(const Call& call, Operands& operands, Index tokens, bool is_inner) {
  const Operand& weight = call[operands.weight];
  const Operand& home = call[tokens];
  call.Param(weight.rank() == 3 && home.rank() == 3 && weight.num_elements() > 0 &&
                 home.num_elements() > 0,
             "x, weight and y must have 3 dims and not be empty", weight.Describe(), " and ",
             home.Describe());
  operands.experts = weight.dim(0), operands.inner = weight.dim(1),
  operands.columns = weight.dim(2);
  operands.capacity = home.dim(1), operands.width = home.dim(2);
  const int64_t hidden = operands.width * (operands.splits_capacity ? 1 : operands.tp.size);
  call.Param(home.dim(0) == operands.experts * operands.ep.size &&
                 hidden == (is_inner ? operands.inner : operands.columns),
             "tokens must be [E,C,H/tp] or [E,C/tp,H] for a weight of E/ep experts",
             home.Describe(), " and ", weight.Describe());
  const auto is = [&](Index index, int64_t width) {
    if (index == kAbsent) return;
    const std::vector<int64_t> dims = {operands.experts, operands.num_rows(), width};
    call.Param(call[index].dims == dims, Concat(call[index].name, " must be [E/ep,ep*C,N]"),
               call[index].Describe(), " for ", DescribeTensor(dims, call[index].dtype));
  };
  is(is_inner ? operands.y : operands.x, is_inner ? operands.columns : operands.inner);
  is(operands.rows, operands.inner);
  is(operands.sums, operands.columns);
  if (operands.bias == kAbsent) return;
  const Operand& bias = call[operands.bias];
  const int64_t width = is_inner ? operands.columns : operands.width;
  const bool is_flat = bias.dims == std::vector<int64_t>{operands.experts, width};
  call.Param(is_flat || bias.dims == std::vector<int64_t>{operands.experts, 1, width},
             "bias must be [E/ep,N] or [E/ep,1,N]", bias.Describe());
}

constexpr std::array kActivations = {Activation::kGeluTanh, Activation::kSilu, Activation::kRelu,
                                     Activation::kQuickGelu};

}  // namespace
}  // namespace opst::cann

using namespace opst;        // NOLINT: only the C functions follow
using namespace opst::cann;  // NOLINT

aclnnStatus aclnnAlltoAllAllGatherBatchMatMulGetWorkspaceSize(
    const aclTensor* x, const aclTensor* weight, const aclTensor* biasOptional, const char* groupEp,
    const char* groupTp, int64_t epWorldSize, int64_t tpWorldSize, int64_t xShardType,
    int64_t actType, aclTensor* y1Out, aclTensor* y2OutOptional, aclTensor* y3OutOptional,
    uint64_t* workspaceSize, aclOpExecutor** executor) {
  const char* const name = "aclnnAlltoAllAllGatherBatchMatMul";
  return PrepareCall(name, workspaceSize, executor, [&](Call& call) -> Body {
    Operands operands =
        Declare(call, {x, weight, biasOptional, groupEp, groupTp, epWorldSize, tpWorldSize,
                       xShardType, y1Out, y2OutOptional, y3OutOptional});
    call.Param(actType >= 0 && actType <= static_cast<int64_t>(kActivations.size()),
               "actType must be 0 to 4", actType);
    call.Param(actType != 0 || operands.sums == kAbsent, "y3Out must be null without an activation",
               actType);
    CheckShapes(call, operands, operands.x, true);
    return [=](Run& run) {
      const std::vector<float> rows = Gather(run, operands);
      run.SetFloats(operands.rows, rows);
      std::vector<float> sums = Multiply(run, operands, rows, run.Floats(operands.bias));
      run.SetFloats(operands.sums, sums);
      if (actType > 0) {
        ElementActivation(kActivations[static_cast<size_t>(actType - 1)], sums.data(), sums.size());
      }
      run.SetFloats(operands.y, sums);
    };
  });
}

aclnnStatus aclnnBatchMatMulReduceScatterAlltoAllGetWorkspaceSize(
    const aclTensor* x, const aclTensor* weight, const aclTensor* biasOptional, const char* groupEp,
    const char* groupTp, int64_t epWorldSize, int64_t tpWorldSize, int64_t yShardType,
    aclTensor* out, uint64_t* workspaceSize, aclOpExecutor** executor) {
  const char* const name = "aclnnBatchMatMulReduceScatterAlltoAll";
  return PrepareCall(name, workspaceSize, executor, [&](Call& call) -> Body {
    Operands operands = Declare(call, {x, weight, biasOptional, groupEp, groupTp, epWorldSize,
                                       tpWorldSize, yShardType, out, nullptr, nullptr});
    CheckShapes(call, operands, operands.y, false);
    return [=](Run& run) {
      std::vector<float> sums =
          ReduceScatter(run, operands, Multiply(run, operands, run.Floats(operands.x), {}));
      const std::vector<float> bias = run.Floats(operands.bias);
      const auto width = static_cast<size_t>(operands.width);
      const size_t of_expert = sums.size() / static_cast<size_t>(operands.experts);
      for (size_t i = 0; i < sums.size() && !bias.empty(); ++i) {
        sums[i] += bias[i / of_expert * width + i % width];
      }
      run.SetFloats(operands.y, SendHome(run, operands, std::move(sums)));
    };
  });
}

OPST_CANN_LAUNCH(aclnnAlltoAllAllGatherBatchMatMul)
OPST_CANN_LAUNCH(aclnnBatchMatMulReduceScatterAlltoAll)
