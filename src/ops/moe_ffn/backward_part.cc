// Data flow of one part, R rows:
//   x --gather--> rows · W_gate_up --> g, u;  d_out --gather--> d_y · W_downᵀ --> z
//   g, u, w z --activation--> d_g, d_u, h;  h, z --> d_w;  w d_y, h --> d_W_down
//   d_g, d_u, rows --> d_W_gate_up;  d_g, d_u · W_gate_upᵀ --scatter--> d_x
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "ops/moe_ffn/backward_part.h"

#include <algorithm>

#include "kernels/activation_backward.h"
#include "kernels/norm.h"
#include "kernels/rows.h"
#include "ops/permute/row_blocks.h"
#include "opst/ops/grouped_matmul.h"
#include "opst/ops/sparse_rows.h"
#include "opst/pack.h"

namespace opst {
namespace {

// Matrices of experts [begin, end) of a [E, N, K] tensor.
ConstTensorView Slice(ConstTensorView weights, int64_t begin, int64_t end) {
  return {weights.row(begin * weights.dim(1)), weights.dtype(),
          Shape{end - begin, weights.dim(1), weights.dim(2)}};
}
TensorView Slice(TensorView weights, int64_t begin, int64_t end) {
  return {weights.mutable_row(begin * weights.dim(1)), weights.dtype(),
          Shape{end - begin, weights.dim(1), weights.dim(2)}};
}

class Part {
 public:
  Part(const Context& context, const MoeFfnBackwardRequest& request, const BackwardExperts& experts,
       const BackwardRows& rows)
      : context_(context), request_(request), experts_(experts) {
    offsets_.push_back(0);
    for (size_t i = 0; i < rows.counts.size(); ++i) {
      for (int64_t row = rows.first_rows[i]; row < rows.first_rows[i] + rows.counts[i]; ++row) {
        slots_.push_back(request.plan.row_to_slot[static_cast<size_t>(row)]);
        tokens_.push_back(static_cast<int32_t>(slots_.back() / request.plan.top_k));
      }
      offsets_.push_back(static_cast<int64_t>(slots_.size()));
    }
    x_ = Tensor(request.x.dtype(), {num_rows(), request.hidden()});
    d_y_ = Tensor(DType::kF32, {num_rows(), request.hidden()});
    gate_up_ = Tensor(DType::kF32, {num_rows(), request.gate_up_rows()});
    if (request.options.saved_gate_up.rank() > 0) {
      for (size_t i = 0; i < rows.counts.size(); ++i) {
        for (int64_t row = 0; row < rows.counts[i]; ++row) {
          plan_rows_.push_back(rows.first_rows[i] + row);
        }
      }
    }
    z_ = Tensor(DType::kF32, {num_rows(), request.ffn()});
  }

  void Run() {
    GatherRows();
    if (plan_rows_.empty()) {
      GroupedMatmul(context_, x_.view(), offsets_, experts_.gate_up,
                    {.bias = BiasOf(request_.experts.gate_up_bias)}, gate_up_.view());
    } else {
      LoadSaved();
    }
    GroupedMatmul(context_, d_y_.view(), offsets_, experts_.down_transposed, z_.view());
    ForRowBlocks(context_, num_rows(), kSummedRowsPerTask, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) ActivateRow(row);
    });
    const MoeFfnGradients& out = request_.gradients;
    if (out.d_down.rank() > 0) AddWeights(z_.view(), d_y_.view(), out.d_down);
    if (out.d_gate_up.rank() > 0) AddWeights(x_.view(), gate_up_.view(), out.d_gate_up);
    if (out.d_down_bias.rank() > 0) AddBias(d_y_.view(), out.d_down_bias);
    if (out.d_gate_up_bias.rank() > 0) AddBias(gate_up_.view(), out.d_gate_up_bias);
    if (request_.d_x.rank() > 0) AddInputs();
  }

 private:
  int64_t num_rows() const { return static_cast<int64_t>(slots_.size()); }
  float* Row(const Tensor& tensor, int64_t row) const {
    return reinterpret_cast<float*>(tensor.view().mutable_row(row));
  }
  ConstTensorView TokenView() const { return {tokens_.data(), Shape{num_rows()}}; }
  ConstTensorView BiasOf(ConstTensorView bias) const {
    if (bias.rank() == 0) return {};
    return {bias.row(experts_.begin), DType::kF32,
            Shape{experts_.end - experts_.begin, bias.dim(1)}};
  }

  void GatherRows() {
    SparseGather(context_, request_.x, TokenView(), x_.view());
    const auto width = static_cast<size_t>(request_.hidden());
    ForRowBlocks(context_, num_rows(), kCopiedRowsPerTask, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        ConvertToFloat(request_.d_out.dtype(),
                       request_.d_out.row(tokens_[static_cast<size_t>(row)]), width,
                       Row(d_y_, row));
      }
    });
  }

  void LoadSaved() {
    const ConstTensorView& saved = request_.options.saved_gate_up;
    const auto width = static_cast<size_t>(request_.gate_up_rows());
    ForRowBlocks(context_, num_rows(), kCopiedRowsPerTask, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        ConvertToFloat(saved.dtype(), saved.row(plan_rows_[static_cast<size_t>(row)]), width,
                       Row(gate_up_, row));
      }
    });
  }

  // Turns g, u into d_g, d_u, z into h and d_y into w d_y, and sets the slot's d_w between.
  void ActivateRow(int64_t row) {
    const auto ffn = static_cast<size_t>(request_.ffn());
    const auto hidden = static_cast<size_t>(request_.hidden());
    const auto slot = static_cast<size_t>(slots_[static_cast<size_t>(row)]);
    const float weight = request_.plan.expert_weights[slot];
    float* gate = Row(gate_up_, row);
    float* z = Row(z_, row);
    float* d_y = Row(d_y_, row);
    std::vector<float> d_h(ffn, 0.0f);
    ScaledAccumulate(weight, z, ffn, d_h.data());
    float* up = request_.has_gate() ? gate + ffn : nullptr;
    ActivationBackward(request_.options.activation, request_.options.limits, ffn,
                       {gate, up, d_h.data(), gate, up, d_h.data()});
    if (request_.gradients.d_expert_weights.rank() > 0) {
      float d_weight = Dot(d_h.data(), z, ffn);
      if (request_.experts.down_bias.rank() > 0) {
        const int32_t expert = request_.plan.expert_ids[slot];
        d_weight += Dot(reinterpret_cast<const float*>(request_.experts.down_bias.row(expert)), d_y,
                        hidden);
      }
      request_.gradients.d_expert_weights.mutable_as<float>()[slot] = d_weight;
    }
    std::copy_n(d_h.data(), ffn, z);
    for (size_t h = 0; h < hidden; ++h) d_y[h] *= weight;
  }

  // d_weights(e) += Σ d_rowsᵀ rows over the rows of e.
  void AddWeights(ConstTensorView rows, ConstTensorView d_rows, TensorView d_weights) {
    GroupedMatmulWeightGradient(context_, rows, d_rows, offsets_, OutputMode::kAdd,
                                Slice(d_weights, experts_.begin, experts_.end));
  }

  void AddBias(ConstTensorView d_rows, TensorView d_bias) {
    const auto width = static_cast<size_t>(d_rows.dim(1));
    ForRowBlocks(context_, experts_.end - experts_.begin, 1, [&](int64_t expert, int64_t) {
      auto* sum = reinterpret_cast<float*>(d_bias.mutable_row(experts_.begin + expert));
      for (int64_t row = offsets_[static_cast<size_t>(expert)];
           row < offsets_[static_cast<size_t>(expert) + 1]; ++row) {
        AddTo(reinterpret_cast<const float*>(d_rows.row(row)), width, sum);
      }
    });
  }

  // d_y has served its purpose and takes the rows of d_x.
  void AddInputs() {
    GroupedMatmul(context_, gate_up_.view(), offsets_, experts_.gate_up_transposed, d_y_.view());
    SparseScatterAdd(context_, d_y_.view(), TokenView(), {}, OutputMode::kAdd, request_.d_x);
  }

  const Context& context_;
  const MoeFfnBackwardRequest& request_;
  const BackwardExperts& experts_;
  std::vector<int64_t> offsets_;  // rows of each expert in this part
  std::vector<int32_t> slots_;    // of each row
  std::vector<int32_t> tokens_;
  std::vector<int64_t> plan_rows_;  // of each row, when g and u were saved
  Tensor x_;                        // [R,H] of x's dtype
  Tensor d_y_;                      // [R,H]
  Tensor gate_up_;                  // [R,2F] g, u; then d_g, d_u; without a gate [R,F]
  Tensor z_;                        // [R,F]; then h
};

}  // namespace

BackwardExperts::BackwardExperts(const Context& context, const MoeFfnBackwardRequest& request,
                                 int64_t begin_expert, int64_t end_expert)
    : begin(begin_expert),
      end(end_expert),
      gate_up(request.options.saved_gate_up.rank() > 0
                  ? PackedWeights()
                  : PackExperts(context, Slice(request.experts.gate_up, begin, end),
                                FormatOf(request.experts.gate_up.dtype()), PanelOrder::kPlain)),
      gate_up_transposed(PackExpertsTransposed(context, Slice(request.experts.gate_up, begin, end),
                                               FormatOf(request.experts.gate_up.dtype()))),
      down_transposed(PackExpertsTransposed(context, Slice(request.experts.down, begin, end),
                                            FormatOf(request.experts.down.dtype()))) {}

size_t BackwardExperts::BytesPerExpert(const MoeFfnBackwardRequest& request) {
  const WeightFormat format = FormatOf(request.experts.gate_up.dtype());
  const int64_t hidden = request.hidden();
  const int64_t ffn = request.ffn();
  const int64_t rows = request.gate_up_rows();
  const bool is_saved = request.options.saved_gate_up.rank() > 0;
  const PanelLayout gate_up{format, PanelOrder::kPlain, rows, hidden};
  return (is_saved ? 0 : gate_up.matrix_bytes()) +
         PanelLayout{format, PanelOrder::kPlain, hidden, rows}.matrix_bytes() +
         PanelLayout{format, PanelOrder::kPlain, ffn, hidden}.matrix_bytes();
}

size_t BackwardBytesPerRow(const MoeFfnBackwardRequest& request) {
  const auto hidden = static_cast<size_t>(request.hidden());
  const auto ffn = static_cast<size_t>(request.ffn());
  const auto width = static_cast<size_t>(request.gate_up_rows());
  constexpr size_t kIndexBytes = 24;
  return hidden * ByteSize(request.x.dtype()) + (hidden + ffn + width) * sizeof(float) +
         kIndexBytes;
}

void RunBackwardPart(const Context& context, const MoeFfnBackwardRequest& request,
                     const BackwardExperts& experts, const BackwardRows& rows) {
  Part(context, request, experts, rows).Run();
}

}  // namespace opst
