// Ranks that are threads of one process: every collective call is one exchange of values.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_CANN_COMMUNICATION_GROUP_H_
#define OPST_CANN_COMMUNICATION_GROUP_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace opst::cann {

// A communicator of ranks 0 … size-1. A rank's n-th exchange meets the others' n-th.
class Group {
 public:
  Group(std::string name, int32_t size);

  const std::string& name() const { return name_; }
  int32_t size() const { return static_cast<int32_t>(next_round_.size()); }

  // Gives a value and waits for those of all ranks, which are returned in the order of ranks.
  // Throws kComm when the others do not come within HCCL_EXEC_TIMEOUT seconds, or never will.
  std::vector<std::shared_ptr<const void>> Exchange(int32_t rank,
                                                    std::shared_ptr<const void> value);
  template <typename T>
  std::vector<std::shared_ptr<const T>> ExchangeAs(int32_t rank, std::shared_ptr<const T> value) {
    std::vector<std::shared_ptr<const T>> all;
    for (const auto& given : Exchange(rank, std::move(value))) {
      all.push_back(std::static_pointer_cast<const T>(given));
    }
    return all;
  }
  // Operators that do not say which rank they are have that of their context's device; -1 = none.
  void PlaceRank(int32_t rank, int32_t device);
  int32_t RankOnDevice(int32_t device);
  void Barrier(int32_t rank) { Exchange(rank, nullptr); }
  // For operators that do not say which rank they are: waits until as many have come as there are
  // ranks, at most for `limit`, or for HCCL_EXEC_TIMEOUT. Who gave up still counts as come.
  void BarrierOfAnyRank(std::optional<std::chrono::microseconds> limit = std::nullopt);
  // Those who wait, and those who come later, get kComm.
  void Abandon();

  // The group of some of these ranks, in the order given; always the same one for the same ranks.
  std::shared_ptr<Group> Among(const std::vector<int32_t>& ranks);

  // Marks that ranks leave with each other to find out who can be reached. Nobody waits. A rank
  // leaves and reads those of its own round, and reading begins the next one.
  void LeaveMark(int32_t from, int32_t at);
  // [size,size]: row i is what rank i has from each rank, the rank + 1 or 0; all 0 when this rank
  // has nothing from i.
  std::vector<int64_t> CollectMarks(int32_t rank);
  // Back to the first round, with nothing from anyone.
  void ForgetMarks(int32_t rank);

 private:
  struct Round {
    std::vector<std::shared_ptr<const void>> values;
    int32_t num_given = 0;
    int32_t num_taken = 0;
  };
  const std::string name_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<uint64_t> next_round_;  // of each rank
  std::vector<int32_t> devices_;      // of each rank, -1 = unknown
  std::map<uint64_t, Round> rounds_;
  std::map<std::vector<int32_t>, std::shared_ptr<Group>> subgroups_;
  std::vector<uint64_t> mark_rounds_;               // of each rank
  std::map<uint64_t, std::vector<int32_t>> marks_;  // of each round that is not over, [size,size]
  uint64_t num_arrived_ = 0;                        // of BarrierOfAnyRank, since the start
  bool is_abandoned_ = false;
};

// Groups by name, as operators name them. Made by the calls of hccl.h.
std::shared_ptr<Group> MakeGroup(int32_t size);
// The group of a name, made when this is the first of its ranks; throws kInvalidArgument when it
// was made with another size.
std::shared_ptr<Group> JoinGroup(const std::string& name, int32_t size);
std::shared_ptr<Group> FindGroup(std::string_view name);
void ForgetGroup(std::string_view name);
void AbandonGroups();

}  // namespace opst::cann

#endif  // OPST_CANN_COMMUNICATION_GROUP_H_
