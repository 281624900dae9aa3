// Dispatch and combine with pairs of tensor parallel ranks, in their second versions, against the
// definition: rows of the own rank, then the partner's; halves are added on the way back.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "aclnnop/aclnn_moe_distribute_combine_add_rms_norm_v2.h"
#include "aclnnop/aclnn_moe_distribute_combine_v2.h"
#include "aclnnop/aclnn_moe_distribute_dispatch_v2.h"
#include "cann/testing/grid.h"

namespace opst::cann {
namespace {

// What the experts of a rank do: half of the product each. Powers of two keep halves exact.
constexpr float kShares[] = {0.5f, 2.0f};

class TensorParallelTest : public GridTest {
 protected:
  void NewCase(bool has_shared) {
    shared_ = has_shared ? Integer(0, 1) : 0;
    experts_ = Integer(1, 3), tokens_ = Integer(1, 4), width_ = Integer(1, 5), k_ = Integer(1, 3);
    ASSERT_NO_FATAL_FAILURE(MakeGrid(shared_ + experts_, 2));
    x_.clear(), ids_.clear(), scales_.clear();
    for (int64_t rank = 0; rank < 2 * ep_; ++rank) {
      x_.push_back(RandomFloats(At(tokens_ * width_)));
      for (float& value : x_.back()) value = Rounded(ACL_BF16, value);
      ids_.push_back(RandomInts(At(tokens_ * k_), 0, experts_ - 1));
      scales_.push_back(RandomFloats(At(tokens_ * k_), 0, 1));
    }
    MakeTensors();
  }
  void MakeTensors() {
    for (auto* tensors : {&in_, &id_, &scale_, &rows_, &notes_, &nums_, &counts_, &tp_counts_}) {
      tensors->clear();
    }
    for (size_t rank = 0; rank < At(2 * ep_); ++rank) {
      in_.push_back(DeviceTensor::Floats(ACL_BF16, {tokens_, width_}, x_[rank], AnyLayout()));
      id_.push_back(DeviceTensor::Ints(ACL_INT32, {tokens_, k_}, ids_[rank], AnyLayout()));
      scale_.push_back(DeviceTensor::Floats(ACL_FLOAT, {tokens_, k_}, scales_[rank]));
      rows_.emplace_back(ACL_BF16, Ints{2 * Capacity(), width_});
      notes_.emplace_back(ACL_INT32, Ints{Capacity() * 128});
      nums_.emplace_back(ACL_INT64, Ints{1});
      counts_.emplace_back(ACL_INT32, Ints{2 * ep_});
      tp_counts_.emplace_back(ACL_INT32, Ints{2});
    }
  }
  int64_t Capacity() const { return ep_ * tokens_ * k_; }

  void Dispatch() {
    RunAll(
        [&](size_t rank, const char* ep, const char* tp, auto* size, auto** executor) {
          const auto number = static_cast<int64_t>(rank);
          return aclnnMoeDistributeDispatchV2GetWorkspaceSize(
              in_[rank], id_[rank], nullptr, nullptr, nullptr, ep, ep_, number / 2, experts_, tp, 2,
              number % 2, 0, shared_, shared_, 0, 0, 1, nullptr, rows_[rank], nullptr, notes_[rank],
              nums_[rank], counts_[rank], tp_counts_[rank], nullptr, size, executor);
        },
        aclnnMoeDistributeDispatchV2);
  }
  // Rows that a rank gets from its own expert parallel ranks, and where each source's end.
  std::vector<float> RowsOf(int64_t p, int64_t t, Ints& ends) const {
    std::vector<float> rows;
    for (int64_t source = 0; source < ep_; ++source) {
      const size_t from = At(source * 2 + t);
      for (int64_t slot = 0; slot < tokens_ * k_; ++slot) {
        const bool is_whole = p < shared_ && slot % k_ == 0;  // a shared expert sees tokens once
        if (!is_whole && (p < shared_ || ids_[from][At(slot)] != p - shared_)) continue;
        const auto token = x_[from].begin() + slot / k_ * width_;
        rows.insert(rows.end(), token, token + width_);
      }
      ends.push_back(static_cast<int64_t>(rows.size()) / width_);
    }
    return rows;
  }
  // The experts' results: each rank has half of the product of its rows and of its partner's.
  std::vector<DeviceTensor> Products() const {
    std::vector<DeviceTensor> products;
    for (size_t rank = 0; rank < rows_.size(); ++rank) {
      std::vector<float> values = rows_[rank].ReadFloats();
      for (float& value : values) value *= kShares[rank % 2];
      products.push_back(DeviceTensor::Floats(ACL_BF16, {2 * Capacity(), width_}, values));
    }
    return products;
  }
  // What a token of a rank gets at one place: both halves, rounded on the way.
  std::pair<double, double> Sum(size_t rank, int64_t token, int64_t h) const {
    const float x = x_[rank][At(token * width_ + h)];
    const double both = Rounded(ACL_BF16, (kShares[0] + kShares[1]) * x);
    double sum = static_cast<double>(shared_) * both, magnitude = std::abs(sum);
    for (int64_t j = 0; j < k_; ++j) {
      sum += scales_[rank][At(token * k_ + j)] * both;
      magnitude += std::abs(scales_[rank][At(token * k_ + j)] * both);
    }
    return {sum, magnitude};
  }

  int64_t shared_ = 0, experts_ = 0, tokens_ = 0, width_ = 0, k_ = 0;
  std::vector<std::vector<float>> x_, scales_;
  std::vector<Ints> ids_;
  std::vector<DeviceTensor> in_, id_, scale_, rows_, notes_, nums_, counts_, tp_counts_;
};

TEST_F(TensorParallelTest, RowsOfThePartnerStandBehindTheOwn) {
  for (int repeat = 0; repeat < 200; ++repeat) {
    ASSERT_NO_FATAL_FAILURE(NewCase(true));
    ASSERT_NO_FATAL_FAILURE(Dispatch());
    for (int64_t rank = 0; rank < 2 * ep_; ++rank) {
      Ints ends, partner_ends;
      std::vector<float> expected = RowsOf(rank / 2, rank % 2, ends);
      const std::vector<float> partner = RowsOf(rank / 2, 1 - rank % 2, partner_ends);
      expected.insert(expected.end(), partner.begin(), partner.end());
      std::vector<float> got = rows_[At(rank)].ReadFloats();
      got.resize(expected.size());
      ASSERT_EQ(got, expected);
      Ints tp_counts = {ends.back(), partner_ends.back()};
      if (rank % 2 == 1) std::swap(tp_counts[0], tp_counts[1]);
      ASSERT_EQ(tp_counts_[At(rank)].ReadInts(), tp_counts);
      ASSERT_EQ(nums_[At(rank)].ReadInts(), Ints{ends.back()});
      ends.insert(ends.end(), partner_ends.begin(), partner_ends.end());
      ASSERT_EQ(counts_[At(rank)].ReadInts(), ends);
    }
  }
}

TEST_F(TensorParallelTest, HalvesAreAddedOnTheWayBack) {
  for (int repeat = 0; repeat < 200; ++repeat) {
    ASSERT_NO_FATAL_FAILURE(NewCase(true));
    ASSERT_NO_FATAL_FAILURE(Dispatch());
    const std::vector<DeviceTensor> products = Products();
    std::vector<DeviceTensor> out;
    for (int64_t rank = 0; rank < 2 * ep_; ++rank) {
      out.emplace_back(ACL_BF16, Ints{tokens_, width_}, AnyLayout());
    }
    ASSERT_NO_FATAL_FAILURE(RunAll(
        [&](size_t rank, const char* ep, const char* tp, auto* size, auto** executor) {
          const auto number = static_cast<int64_t>(rank);
          return aclnnMoeDistributeCombineV2GetWorkspaceSize(
              products[rank], id_[rank], notes_[rank], counts_[rank], scale_[rank],
              tp_counts_[rank], nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, ep, ep_,
              number / 2, experts_, tp, 2, number % 2, 0, shared_, shared_, 0, 0, 0, 0, nullptr,
              out[rank], size, executor);
        },
        aclnnMoeDistributeCombineV2));
    for (size_t rank = 0; rank < out.size(); ++rank) {
      Doubles sums, magnitudes;
      for (int64_t at = 0; at < tokens_ * width_; ++at) {
        const auto [sum, magnitude] = Sum(rank, at / width_, at % width_);
        sums.push_back(sum), magnitudes.push_back(OnceRounded(ACL_BF16, sum, magnitude));
      }
      ASSERT_TRUE(Near(ACL_FLOAT, out[rank].ReadFloats(), sums, magnitudes));
    }
  }
}

TEST_F(TensorParallelTest, TheNormFollowsTheSumOfHalves) {
  for (int repeat = 0; repeat < 100; ++repeat) {
    ASSERT_NO_FATAL_FAILURE(NewCase(false));
    ASSERT_NO_FATAL_FAILURE(Dispatch());
    const std::vector<DeviceTensor> products = Products();
    const auto bf16 = [&](int64_t count) {
      std::vector<float> values = RandomFloats(At(count), 1, 2);
      for (float& value : values) value = Rounded(ACL_BF16, value);
      return values;
    };
    const auto residual = bf16(tokens_ * width_), gamma = bf16(width_);
    const auto r = DeviceTensor::Floats(ACL_BF16, {tokens_, 1, width_}, residual, AnyLayout());
    const auto g = DeviceTensor::Floats(ACL_BF16, {width_}, gamma);
    std::vector<DeviceTensor> x, y, rstd;
    for (int64_t rank = 0; rank < 2 * ep_; ++rank) {
      x.emplace_back(ACL_BF16, Ints{tokens_, 1, width_}, AnyLayout());
      y.emplace_back(ACL_BF16, Ints{tokens_, 1, width_}, AnyLayout());
      rstd.emplace_back(ACL_FLOAT, Ints{tokens_, 1, 1});
    }
    ASSERT_NO_FATAL_FAILURE(RunAll(
        [&](size_t rank, const char* ep, const char* tp, auto* size, auto** executor) {
          const auto number = static_cast<int64_t>(rank);
          return aclnnMoeDistributeCombineAddRmsNormV2GetWorkspaceSize(
              products[rank], id_[rank], notes_[rank], counts_[rank], scale_[rank], r, g,
              tp_counts_[rank], nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,
              nullptr, nullptr, nullptr, nullptr, ep, ep_, number / 2, experts_, tp, 2, number % 2,
              0, 0, 0, 0, 0, 0, 0, nullptr, 1e-6f, 0, 0, 0, y[rank], rstd[rank], x[rank], size,
              executor);
        },
        aclnnMoeDistributeCombineAddRmsNormV2));
    for (size_t rank = 0; rank < x.size(); ++rank) {
      Doubles sums, magnitudes;
      for (int64_t token = 0; token < tokens_; ++token) {
        double mean = 0, noise = 0;
        for (int64_t h = 0; h < width_; ++h) {
          auto [sum, magnitude] = Sum(rank, token, h);
          sum += residual[At(token * width_ + h)];
          magnitude += std::abs(residual[At(token * width_ + h)]);
          sums.push_back(sum), magnitudes.push_back(OnceRounded(ACL_BF16, sum, magnitude));
          mean += sum * sum / static_cast<double>(width_);
          noise = std::max(noise, magnitude);
        }
        const double expected = 1 / std::sqrt(mean + 1e-6);
        // f32 sums of this size, seen through the root.
        const double relative = 1e-6 * (1 + noise * noise * expected * expected);
        ASSERT_NEAR(rstd[rank].ReadFloats()[At(token)], expected, expected * relative);
        for (int64_t h = 0; h < width_; ++h) {  // rounded to bf16 twice
          const size_t at = At(token * width_ + h);
          const double value = sums[at] * expected * gamma[At(h)];
          const double off = std::abs(value) * (0x1p-7 + relative) + 1e-6 * noise * expected * 2;
          ASSERT_NEAR(y[rank].ReadFloats()[at], value, off);
        }
      }
      ASSERT_TRUE(Near(ACL_FLOAT, x[rank].ReadFloats(), sums, magnitudes));
    }
  }
}

}  // namespace
}  // namespace opst::cann
