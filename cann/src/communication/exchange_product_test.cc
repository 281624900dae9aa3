// Grouped products with an all-to-all before or after them, against plain loops over all ranks.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "aclnnop/aclnn_allto_allv_grouped_mat_mul.h"
#include "aclnnop/aclnn_grouped_mat_mul_allto_allv.h"
#include "cann/testing/ranks.h"
#include "cann/testing/routing_case.h"

namespace opst::cann {
namespace {

class ExchangeProductTest : public RankTest {
 protected:
  void NewCase() {
    ranks_ = Integer(1, 4), experts_ = Integer(1, 3), hidden_ = Integer(1, 5);
    columns_ = Integer(1, 5);
    MakeRanks(static_cast<int32_t>(ranks_));
    counts_ = RandomInts(At(ranks_ * ranks_ * experts_), 0, 3);
    weights_ = Values(ranks_ * experts_ * hidden_ * columns_);
  }
  std::vector<float> Values(int64_t count) {
    std::vector<float> values = RandomFloats(At(count));
    for (float& value : values) value = Rounded(ACL_BF16, value);
    return values;
  }
  // Rows from rank `from` for expert `expert` of rank `to`.
  int64_t Count(int64_t from, int64_t to, int64_t expert) const {
    return counts_[At((from * ranks_ + to) * experts_ + expert)];
  }
  // What a rank gives to, or gets from, (rank, expert).
  Ints Sends(int64_t rank) const {
    Ints counts;
    for (int64_t pair = 0; pair < ranks_ * experts_; ++pair) {
      counts.push_back(Count(rank, pair / experts_, pair % experts_));
    }
    return counts;
  }
  Ints Receives(int64_t rank) const {
    Ints counts;
    for (int64_t pair = 0; pair < ranks_ * experts_; ++pair) {
      counts.push_back(Count(pair / experts_, rank, pair % experts_));
    }
    return counts;
  }
  static int64_t Total(const Ints& counts) {
    return std::accumulate(counts.begin(), counts.end(), int64_t{0});
  }
  DeviceTensor Weight(int64_t rank) const {
    const auto first = weights_.begin() + rank * experts_ * hidden_ * columns_;
    return DeviceTensor::Floats(ACL_BF16, {experts_, hidden_, columns_},
                                {first, first + experts_ * hidden_ * columns_});
  }
  // row · W of an expert, with its magnitudes.
  void Multiply(const std::vector<float>& row, int64_t rank, int64_t expert, Sums& sums) const {
    for (int64_t n = 0; n < columns_; ++n) {
      double sum = 0, magnitude = 0;
      for (int64_t k = 0; k < hidden_; ++k) {
        const int64_t at = ((rank * experts_ + expert) * hidden_ + k) * columns_ + n;
        const double term = static_cast<double>(row[At(k)]) * weights_[At(at)];
        sum += term;
        magnitude += std::abs(term);
      }
      sums.values.push_back(sum);
      sums.magnitudes.push_back(magnitude);
    }
  }
  // The i-th row that rank `from` has for (to, expert): known without its place.
  std::vector<float> Row(int64_t from, int64_t to, int64_t expert, int64_t i) const {
    std::vector<float> row;
    for (int64_t h = 0; h < hidden_; ++h) {
      row.push_back(static_cast<float>((from * 7 + to * 3 + expert * 5 + i * 11 + h) % 16) / 8 - 1);
    }
    return row;
  }

  void CheckResults(const std::vector<DeviceTensor>& ys, const std::vector<DeviceTensor>& backs) {
    for (int64_t rank = 0; rank < ranks_; ++rank) {
      Sums here, home;
      for (int64_t expert = 0; expert < experts_; ++expert) {
        for (int64_t from = 0; from < ranks_; ++from) {
          for (int64_t i = 0; i < Count(from, rank, expert); ++i) {
            Multiply(Row(from, rank, expert, i), rank, expert, here);
          }
        }
      }
      for (int64_t pair = 0; pair < ranks_ * experts_; ++pair) {
        for (int64_t i = 0; i < Sends(rank)[At(pair)]; ++i) {
          Multiply(Row(rank, pair / experts_, pair % experts_, i), pair / experts_, pair % experts_,
                   home);
        }
      }
      ASSERT_TRUE(Near(ACL_BF16, ys[At(rank)].ReadFloats(), here.values, here.magnitudes));
      ASSERT_TRUE(Near(ACL_BF16, backs[At(rank)].ReadFloats(), home.values, home.magnitudes));
    }
  }

  int64_t ranks_ = 0, experts_ = 0, hidden_ = 0, columns_ = 0;
  Ints counts_;
  std::vector<float> weights_;
};

TEST_F(ExchangeProductTest, RowsAreMultipliedByTheExpertsOfOtherRanksAndComeBack) {
  for (int repeat = 0; repeat < 100; ++repeat) {
    NewCase();
    std::vector<DeviceTensor> xs, ws, permuted, ys, backs;
    for (int64_t rank = 0; rank < ranks_; ++rank) {
      std::vector<float> x;
      for (int64_t pair = 0; pair < ranks_ * experts_; ++pair) {
        for (int64_t i = 0; i < Sends(rank)[At(pair)]; ++i) {
          const auto row = Row(rank, pair / experts_, pair % experts_, i);
          x.insert(x.end(), row.begin(), row.end());
        }
      }
      const int64_t sent = Total(Sends(rank)), received = Total(Receives(rank));
      xs.push_back(DeviceTensor::Floats(ACL_BF16, {sent, hidden_}, x, AnyLayout()));
      ws.push_back(Weight(rank));
      permuted.emplace_back(ACL_BF16, Ints{received, hidden_});
      ys.emplace_back(ACL_BF16, Ints{received, columns_});
      backs.emplace_back(ACL_BF16, Ints{sent, columns_});
    }
    for (const bool goes : {true, false}) {
      for (int64_t rank = 0; rank < ranks_; ++rank) {
        const size_t at = At(rank);
        ASSERT_EQ(aclrtSetDevice(static_cast<int32_t>(rank)), 0);
        const Ints sends = Sends(rank), receives = Receives(rank);
        aclIntArray* const out = aclCreateIntArray(sends.data(), sends.size());
        aclIntArray* const in = aclCreateIntArray(receives.data(), receives.size());
        const auto go = [&](uint64_t* size, aclOpExecutor** executor) {
          return aclnnAlltoAllvGroupedMatMulGetWorkspaceSize(
              xs[at], ws[at], nullptr, nullptr, nullptr, nullptr, group_.c_str(), ranks_, out, in,
              false, false, true, ys[at], nullptr, permuted[at], size, executor);
        };
        const auto back = [&](uint64_t* size, aclOpExecutor** executor) {
          return aclnnGroupedMatMulAlltoAllvGetWorkspaceSize(
              permuted[at], ws[at], nullptr, nullptr, nullptr, nullptr, group_.c_str(), ranks_, in,
              out, false, false, backs[at], nullptr, size, executor);
        };
        goes ? Queue(at, go, aclnnAlltoAllvGroupedMatMul)
             : Queue(at, back, aclnnGroupedMatMulAlltoAllv);
        aclDestroyIntArray(out), aclDestroyIntArray(in);
      }
      Wait();
    }
    CheckResults(ys, backs);
    ASSERT_FALSE(HasFatalFailure());
  }
}

}  // namespace
}  // namespace opst::cann
