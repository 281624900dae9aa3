// Copies token rows into expert order as int8, with one scale for all or one a row.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "kernels/quantize.h"
#include "kernels/rows.h"
#include "ops/permute/dynamic_int8.h"
#include "ops/permute/row_blocks.h"
#include "ops/routing/check_plan.h"
#include "opst/ops/permute.h"

namespace opst {
namespace {

constexpr std::string_view kOp = "permute_quantized";

void CheckScales(const QuantizedPermuteOptions& options, const RoutingPlan& plan, int64_t hidden,
                 TensorView scales) {
  if (options.quantization == RowQuantization::kStatic) {
    OPST_CHECK_ARG(std::isfinite(options.scale) && std::isfinite(options.offset), kOp,
                   "scale and offset must be finite", options.scale, " and ", options.offset);
    OPST_CHECK_ARG(scales.rank() == 0 && options.smooth.rank() == 0, kOp,
                   "static quantisation has neither smooth factors nor scales", "scales ",
                   scales.ToString(), ", smooth ", options.smooth.ToString());
    return;
  }
  OPST_CHECK_ARG(scales.shape() == Shape{plan.num_rows()} && scales.dtype() == DType::kF32 &&
                     scales.is_contiguous(),
                 kOp, "scales must be contiguous [R] f32", scales.ToString(), " for ",
                 plan.num_rows(), " rows");
  const ConstTensorView& smooth = options.smooth;
  const bool fits = smooth.rank() == 2 && smooth.dim(1) == hidden &&
                    (smooth.dim(0) == 1 || smooth.dim(0) == plan.num_experts) &&
                    smooth.dtype() == DType::kF32;
  OPST_CHECK_ARG(smooth.rank() == 0 || fits, kOp, "smooth must be [E,H] or [1,H] f32, or absent",
                 smooth.ToString());
}

void CheckArguments(ConstTensorView x, const RoutingPlan& plan,
                    const QuantizedPermuteOptions& options, TensorView out, TensorView scales) {
  OPST_CHECK_ARG(
      x.rank() == 2 && x.dim(0) == plan.num_tokens && x.dim(1) > 0 && IsModelFloat(x.dtype()), kOp,
      "input must be [T,H] f32, bf16 or f16 of the plan's tokens, H > 0", x.ToString(), " for ",
      plan.num_tokens, " tokens");
  OPST_CHECK_ARG(out.shape() == (Shape{plan.num_rows(), x.dim(1)}) && out.dtype() == DType::kI8,
                 kOp, "output must be [R,H] i8", out.ToString(), " for ", plan.num_rows(),
                 " rows of ", x.ToString());
  CheckScales(options, plan, x.dim(1), scales);
  OPST_CHECK_ARG(!out.Overlaps(x), kOp, "output must not overlap the input", out.ToString());
  CheckPlan(kOp, plan);
}

}  // namespace

void PermuteQuantized(const Context& context, ConstTensorView x, const RoutingPlan& plan,
                      const QuantizedPermuteOptions& options, TensorView out, TensorView scales) {
  CheckArguments(x, plan, options, out, scales);
  const auto width = static_cast<size_t>(x.dim(1));
  const bool is_static = options.quantization == RowQuantization::kStatic;
  ForRowBlocks(context, plan.num_rows(), kCopiedRowsPerTask, [&](int64_t begin, int64_t end) {
    std::vector<float> values(width);
    for (int64_t row = begin; row < end; ++row) {
      const int32_t slot = plan.row_to_slot[static_cast<size_t>(row)];
      auto* q = reinterpret_cast<int8_t*>(out.mutable_row(row));
      if (slot < 0) {
        std::memset(q, 0, width);
        if (!is_static) scales.mutable_as<float>()[row] = 0;
        continue;
      }
      ConvertToFloat(x.dtype(), x.row(slot / plan.top_k), width, values.data());
      if (is_static) {
        ToInt8(values.data(), width, options.scale, options.offset, q);
        continue;
      }
      if (options.smooth.rank() > 0) {
        const int64_t expert =
            options.smooth.dim(0) == 1 ? 0 : plan.expert_ids[static_cast<size_t>(slot)];
        const auto* factors = reinterpret_cast<const float*>(options.smooth.row(expert));
        for (size_t h = 0; h < width; ++h) values[h] *= factors[h];
      }
      scales.mutable_as<float>()[row] = QuantizeDynamic(values.data(), width, q);
    }
  });
}

}  // namespace opst
