// CANN's grouped products fused with an all-to-all: rows go to their experts' ranks before, or come
// back after. A second product, of rows that stay, may ride along.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include "aclnnop/aclnn_allto_allv_grouped_mat_mul.h"
#include "aclnnop/aclnn_grouped_mat_mul_allto_allv.h"
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
constexpr int64_t kMaxExperts = 32;

struct Arguments {
  const aclTensor *x, *weight, *send_tensor, *receive_tensor, *mm_x, *mm_weight;
  const char* group;
  int64_t ranks;
  const aclIntArray *send_counts, *receive_counts;
  bool transpose_weight, transpose_mm, wants_rows;
  const aclTensor *y, *mm_y, *rows;
};

struct Operands {
  Index x = kAbsent, weight = kAbsent, mm_x = kAbsent, mm_weight = kAbsent;
  Index y = kAbsent, mm_y = kAbsent, rows = kAbsent;
  // Rows to and from (rank, expert), ranks first.
  std::vector<int64_t> send, receive;
  int64_t ranks = 0, experts = 0, hidden = 0, columns = 0;
  bool transpose_weight = false, transpose_mm = false;
  std::shared_ptr<Group> group;
  int32_t rank = 0;
};

// Rows in the order of (rank, expert) and how many each pair has.
struct Rows {
  std::vector<float> values;
  std::vector<int64_t> counts;
  std::string error;
};

// Each pair's first row when they stand by rank, or by expert.
std::vector<int64_t> Starts(const std::vector<int64_t>& counts, int64_t ranks, int64_t experts,
                            bool by_expert) {
  std::vector<int64_t> starts(counts.size());
  int64_t next = 0;
  for (int64_t i = 0; i < ranks * experts; ++i) {
    const int64_t pair = by_expert ? i % ranks * experts + i / ranks : i;
    starts[static_cast<size_t>(pair)] = next;
    next += counts[static_cast<size_t>(pair)];
  }
  return starts;
}

// Brings rows that stand by (rank, expert) to those pairs' owners; they arrive by expert, then rank
// (`to_experts`), or travel the other way.
std::vector<float> Exchange(const Run& run, const Operands& operands, std::vector<float> values,
                            int64_t width, bool to_experts) {
  auto mine = std::make_shared<Rows>();
  mine->values = std::move(values);
  mine->counts = operands.send;
  const auto all = operands.group->ExchangeAs<Rows>(operands.rank, mine);
  const auto targets = Starts(operands.receive, operands.ranks, operands.experts, to_experts);
  int64_t total = 0;
  for (const int64_t count : operands.receive) total += count;
  std::vector<float> result(static_cast<size_t>(total * width));
  for (int64_t from = 0; from < operands.ranks; ++from) {
    const Rows& rows = *all[static_cast<size_t>(from)];
    const auto starts = Starts(rows.counts, operands.ranks, operands.experts, !to_experts);
    for (int64_t expert = 0; expert < operands.experts; ++expert) {
      const auto sent = static_cast<size_t>(operands.rank * operands.experts + expert);
      const auto expected = static_cast<size_t>(from * operands.experts + expert);
      run.Value(rows.counts[sent] == operands.receive[expected],
                "recvCounts must be what the other rank sends", operands.receive[expected], " for ",
                rows.counts[sent], " from rank ", from);
      std::copy_n(rows.values.begin() + starts[sent] * width, rows.counts[sent] * width,
                  result.begin() + targets[expected] * width);
    }
  }
  return result;
}

// A weight as [K,N] of its dtype, widened and turned when it is stored the other way.
std::vector<float> Matrix(const Run& run, Index weight, int64_t slice, int64_t inner,
                          int64_t columns, bool is_transposed) {
  const DType dtype = ToDType(run[weight].dtype);
  const auto count = static_cast<size_t>(inner * columns);
  std::vector<float> stored(count);
  ConvertToFloat(dtype, run.data(weight) + static_cast<size_t>(slice) * count * ByteSize(dtype),
                 count, stored.data());
  if (!is_transposed) return stored;
  std::vector<float> turned(count);
  for (int64_t k = 0; k < inner; ++k) {
    for (int64_t n = 0; n < columns; ++n) {
      turned[static_cast<size_t>(k * columns + n)] = stored[static_cast<size_t>(n * inner + k)];
    }
  }
  return turned;
}

// Rows by expert times their weights, rounded to the operands' dtype.
std::vector<float> MultiplyExperts(const Run& run, const Operands& operands,
                                   const std::vector<float>& rows,
                                   const std::vector<int64_t>& counts) {
  std::vector<float> result(rows.size() / static_cast<size_t>(operands.hidden) *
                            static_cast<size_t>(operands.columns));
  int64_t begin = 0;
  for (int64_t expert = 0; expert < operands.experts; ++expert) {
    int64_t count = 0;
    for (int64_t rank = 0; rank < operands.ranks; ++rank) {
      count += counts[static_cast<size_t>(rank * operands.experts + expert)];
    }
    const auto weight = Matrix(run, operands.weight, expert, operands.hidden, operands.columns,
                               operands.transpose_weight);
    MultiplyFloats(
        run.context(),
        ConstTensorView(rows.data() + begin * operands.hidden, Shape{count, operands.hidden}),
        ConstTensorView(weight.data(), Shape{operands.hidden, operands.columns}), {},
        TensorView(result.data() + begin * operands.columns, Shape{count, operands.columns}));
    begin += count;
  }
  return result;
}

void MultiplyStaying(const Run& run, const Operands& operands) {
  if (operands.mm_x == kAbsent) return;
  const int64_t rows = run[operands.mm_x].dim(0), inner = run[operands.mm_x].dim(1);
  const int64_t columns = run[operands.mm_y].dim(1);
  const auto weight = Matrix(run, operands.mm_weight, 0, inner, columns, operands.transpose_mm);
  MultiplyFloats(run.context(), run.In(operands.mm_x, rows, inner),
                 ConstTensorView(weight.data(), Shape{inner, columns}), {},
                 run.Out(operands.mm_y, rows, columns));
}

int64_t Sum(const std::vector<int64_t>& counts) {
  int64_t sum = 0;
  for (const int64_t count : counts) sum += count;
  return sum;
}

void CheckCounts(const Call& call, const Operands& operands, int64_t sent, int64_t received) {
  for (const auto* counts : {&operands.send, &operands.receive}) {
    call.Param(static_cast<int64_t>(counts->size()) == operands.ranks * operands.experts &&
                   std::all_of(counts->begin(), counts->end(),
                               [](int64_t c) { return c >= 0 && c < (int64_t{1} << 31); }),
               "sendCounts and recvCounts must have a count for each rank and expert",
               counts->size(), " for ", operands.ranks, " ranks of ", operands.experts);
  }
  call.Param(Sum(operands.send) == sent && Sum(operands.receive) == received,
             "the counts must be those of the rows", Sum(operands.send), " and ",
             Sum(operands.receive), " for ", sent, " and ", received);
}

void CheckStaying(const Call& call, const Operands& operands) {
  const Operand& x = call[operands.mm_x];
  const Operand& weight = call[operands.mm_weight];
  const Operand& y = call[operands.mm_y];
  const size_t axis = operands.transpose_mm ? 1 : 0;
  call.Param(x.rank() == 2 && weight.rank() == 2 && y.rank() == 2 && weight.dim(axis) == x.dim(1) &&
                 weight.dim(1 - axis) == y.dim(1) && y.dim(0) == x.dim(0),
             "mmX, mmWeight and mmY must fit", x.Describe(), ", ", weight.Describe(), ", ",
             y.Describe());
}

Operands Check(Call& call, const Arguments& arguments) {
  const bool has_mm = arguments.mm_x != nullptr;
  const auto with_mm = has_mm ? Need::kRequired : Need::kOptional;
  Operands operands;
  operands.x = call.Input("gmmX", arguments.x, kHalves);
  operands.weight = call.Input("gmmWeight", arguments.weight, kHalves);
  operands.mm_x = call.Input("mmX", arguments.mm_x, kHalves, Need::kOptional);
  operands.mm_weight = call.Input("mmWeight", arguments.mm_weight, kHalves, with_mm);
  operands.y = call.Output("y", arguments.y, kHalves);
  operands.mm_y = call.Output("mmY", arguments.mm_y, kHalves, with_mm);
  operands.rows = call.Output("permuteOut", arguments.rows, kHalves,
                              arguments.wants_rows ? Need::kRequired : Need::kOptional);
  call.RequirePointer("group", arguments.group == nullptr || arguments.group[0] == '\0'
                                   ? nullptr
                                   : arguments.group);
  call.RequirePointer("sendCounts", arguments.send_counts);
  call.RequirePointer("recvCounts", arguments.receive_counts);
  operands.send = call.IntArray("sendCounts", arguments.send_counts);
  operands.receive = call.IntArray("recvCounts", arguments.receive_counts);
  call.CheckOperands();
  for (const Index index : {operands.weight, operands.mm_x, operands.mm_weight, operands.y,
                            operands.mm_y, operands.rows}) {
    call.SameDType(index, operands.x);
  }
  call.Param(arguments.send_tensor == nullptr && arguments.receive_tensor == nullptr,
             "sendCountsTensor and recvCountsTensor must be null", "a tensor");
  const Operand& x = call[operands.x];
  const Operand& weight = call[operands.weight];
  const Operand& y = call[operands.y];
  call.Param(x.rank() == 2 && weight.rank() == 3 && y.rank() == 2,
             "gmmX and y must have 2 dims, "
             "gmmWeight 3",
             x.Describe(), ", ", weight.Describe(), ", ", y.Describe());
  operands.ranks = arguments.ranks;
  operands.experts = weight.dim(0);
  operands.hidden = x.dim(1);
  operands.columns = y.dim(1);
  operands.transpose_weight = arguments.transpose_weight;
  operands.transpose_mm = arguments.transpose_mm;
  const size_t inner_axis = arguments.transpose_weight ? 2 : 1;
  call.Param(
      weight.dim(inner_axis) == operands.hidden && weight.dim(3 - inner_axis) == operands.columns &&
          operands.hidden > 0 && operands.experts >= 1 && operands.experts <= kMaxExperts,
      "gmmWeight must be [e,H,N], or [e,N,H] when transposed, e at most 32", weight.Describe());
  operands.group = FindGroup(arguments.group);
  call.Param(operands.group != nullptr && operands.group->size() == operands.ranks,
             "the group must be that of a communicator of epWorldSize ranks", arguments.group);
  operands.rank = operands.group->RankOnDevice(CurrentContext(call.name())->device);
  call.Param(operands.rank >= 0, "the context's device must be one of the group", operands.rank);
  if (has_mm) CheckStaying(call, operands);
  return operands;
}

}  // namespace
}  // namespace opst::cann

using namespace opst;        // NOLINT: only the C functions follow
using namespace opst::cann;  // NOLINT

aclnnStatus aclnnAlltoAllvGroupedMatMulGetWorkspaceSize(
    const aclTensor* gmmX, const aclTensor* gmmWeight, const aclTensor* sendCountsTensorOptional,
    const aclTensor* recvCountsTensorOptional, const aclTensor* mmXOptional,
    const aclTensor* mmWeightOptional, const char* group, int64_t epWorldSize,
    const aclIntArray* sendCounts, const aclIntArray* recvCounts, bool transGmmWeight,
    bool transMmWeight, bool permuteOutFlag, aclTensor* gmmY, aclTensor* mmYOptional,
    aclTensor* permuteOutOptional, uint64_t* workspaceSize, aclOpExecutor** executor) {
  const char* const name = "aclnnAlltoAllvGroupedMatMul";
  return PrepareCall(name, workspaceSize, executor, [&](Call& call) -> Body {
    const Operands operands = Check(
        call, {gmmX, gmmWeight, sendCountsTensorOptional, recvCountsTensorOptional, mmXOptional,
               mmWeightOptional, group, epWorldSize, sendCounts, recvCounts, transGmmWeight,
               transMmWeight, permuteOutFlag, gmmY, mmYOptional, permuteOutOptional});
    CheckCounts(call, operands, call[operands.x].dim(0), call[operands.y].dim(0));
    if (permuteOutFlag) {
      call.Param(call[operands.rows].dims ==
                     std::vector<int64_t>{call[operands.y].dim(0), operands.hidden},
                 "permuteOut must be [A,H]", call[operands.rows].Describe());
    }
    return [=](Run& run) {
      const auto rows = Exchange(run, operands, run.Floats(operands.x), operands.hidden, true);
      if (permuteOutFlag) run.SetFloats(operands.rows, rows);
      run.SetFloats(operands.y, MultiplyExperts(run, operands, rows, operands.receive));
      MultiplyStaying(run, operands);
    };
  });
}

aclnnStatus aclnnGroupedMatMulAlltoAllvGetWorkspaceSize(
    const aclTensor* gmmX, const aclTensor* gmmWeight, const aclTensor* sendCountsTensorOptional,
    const aclTensor* recvCountsTensorOptional, const aclTensor* mmXOptional,
    const aclTensor* mmWeightOptional, const char* group, int64_t epWorldSize,
    const aclIntArray* sendCounts, const aclIntArray* recvCounts, bool transGmmWeight,
    bool transMmWeight, aclTensor* y, aclTensor* mmYOptional, uint64_t* workspaceSize,
    aclOpExecutor** executor) {
  const char* const name = "aclnnGroupedMatMulAlltoAllv";
  return PrepareCall(name, workspaceSize, executor, [&](Call& call) -> Body {
    const Operands operands =
        Check(call, {gmmX, gmmWeight, sendCountsTensorOptional, recvCountsTensorOptional,
                     mmXOptional, mmWeightOptional, group, epWorldSize, sendCounts, recvCounts,
                     transGmmWeight, transMmWeight, false, y, mmYOptional, nullptr});
    CheckCounts(call, operands, call[operands.x].dim(0), call[operands.y].dim(0));
    return [=](Run& run) {
      const auto products = MultiplyExperts(run, operands, run.Floats(operands.x), operands.send);
      run.SetFloats(operands.y, Exchange(run, operands, products, operands.columns, false));
      MultiplyStaying(run, operands);
    };
  });
}

OPST_CANN_LAUNCH(aclnnAlltoAllvGroupedMatMul)
OPST_CANN_LAUNCH(aclnnGroupedMatMulAlltoAllv)
