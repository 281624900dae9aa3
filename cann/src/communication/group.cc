// The meeting point of ranks, and the names of groups.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "cann/src/communication/group.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <utility>

#include "base/check.h"
#include "base/strings.h"

namespace opst::cann {
namespace {

constexpr int64_t kDefaultTimeoutSeconds = 1836;  // HCCL's

std::chrono::seconds Timeout() {
  const char* text = std::getenv("HCCL_EXEC_TIMEOUT");
  const auto number = text == nullptr ? std::nullopt : ParseInt(Trim(text));
  return std::chrono::seconds(number && *number > 0 ? *number : kDefaultTimeoutSeconds);
}

struct Names {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<Group>, std::less<>> groups;
  uint64_t num_made = 0;
};

Names& AllNames() {
  static auto* const names = new Names;
  return *names;
}

}  // namespace

Group::Group(std::string name, int32_t size)
    : name_(std::move(name)),
      next_round_(static_cast<size_t>(size), 0),
      devices_(next_round_.size(), -1),
      mark_rounds_(next_round_.size(), 0) {}

void Group::PlaceRank(int32_t rank, int32_t device) {
  const std::lock_guard<std::mutex> lock(mutex_);
  devices_[static_cast<size_t>(rank)] = device;
}

int32_t Group::RankOnDevice(int32_t device) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = std::find(devices_.begin(), devices_.end(), device);
  return found == devices_.end() ? -1 : static_cast<int32_t>(found - devices_.begin());
}

std::vector<std::shared_ptr<const void>> Group::Exchange(int32_t rank,
                                                         std::shared_ptr<const void> value) {
  std::unique_lock<std::mutex> lock(mutex_);
  const uint64_t number = next_round_[static_cast<size_t>(rank)]++;
  Round& round = rounds_[number];
  round.values.resize(next_round_.size());
  round.values[static_cast<size_t>(rank)] = std::move(value);
  ++round.num_given;
  changed_.notify_all();
  const bool came = changed_.wait_for(lock, Timeout(),
                                      [&] { return is_abandoned_ || round.num_given == size(); });
  if (round.num_given != size()) {
    Throw(ErrorKind::kComm, name_,
          came ? "ranks must stay until all are done"
               : "all ranks must come within HCCL_EXEC_TIMEOUT",
          Concat(round.num_given, " of ", size()));
  }
  auto values = round.values;
  if (++round.num_taken == size()) rounds_.erase(number);
  return values;
}

void Group::BarrierOfAnyRank(std::optional<std::chrono::microseconds> limit) {
  std::unique_lock<std::mutex> lock(mutex_);
  const auto ranks = static_cast<uint64_t>(size());
  const uint64_t wanted = (num_arrived_++ / ranks + 1) * ranks;
  changed_.notify_all();
  changed_.wait_for(lock, limit.value_or(Timeout()),
                    [&] { return is_abandoned_ || num_arrived_ >= wanted; });
  if (num_arrived_ < wanted) {
    Throw(ErrorKind::kComm, name_, "all ranks must come to the barrier",
          Concat(num_arrived_ + ranks - wanted, " of ", ranks));
  }
}

void Group::Abandon() {
  std::map<std::vector<int32_t>, std::shared_ptr<Group>> subgroups;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_abandoned_ = true;
    subgroups = subgroups_;
  }
  changed_.notify_all();
  for (const auto& [ranks, subgroup] : subgroups) subgroup->Abandon();
}

std::shared_ptr<Group> Group::Among(const std::vector<int32_t>& ranks) {
  const std::lock_guard<std::mutex> lock(mutex_);
  auto& group = subgroups_[ranks];
  if (group != nullptr) return group;
  const auto count = static_cast<int32_t>(ranks.size());
  group = std::make_shared<Group>(Concat(name_, " (", count, " of its ranks)"), count);
  for (int32_t i = 0; i < count; ++i) {
    group->PlaceRank(i, devices_[static_cast<size_t>(ranks[static_cast<size_t>(i)])]);
  }
  if (is_abandoned_) group->Abandon();
  return group;
}

void Group::LeaveMark(int32_t from, int32_t at) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const size_t ranks = mark_rounds_.size(), sender = static_cast<size_t>(from);
  auto& table = marks_[mark_rounds_[sender]];
  table.resize(ranks * ranks, 0);
  table[static_cast<size_t>(at) * ranks + sender] = from + 1;
}

std::vector<int64_t> Group::CollectMarks(int32_t rank) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const size_t ranks = mark_rounds_.size(), reader = static_cast<size_t>(rank);
  auto& table = marks_[mark_rounds_[reader]++];
  table.resize(ranks * ranks, 0);
  std::vector<int64_t> seen(table.begin(), table.end());
  for (size_t i = 0; i < ranks; ++i) {
    const auto row = seen.begin() + static_cast<std::ptrdiff_t>(i * ranks);
    if (table[reader * ranks + i] == 0) std::fill_n(row, ranks, 0);
  }
  const uint64_t oldest = *std::min_element(mark_rounds_.begin(), mark_rounds_.end());
  marks_.erase(marks_.begin(), marks_.lower_bound(oldest));
  return seen;
}

void Group::ForgetMarks(int32_t rank) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const size_t ranks = mark_rounds_.size(), reader = static_cast<size_t>(rank);
  mark_rounds_[reader] = 0;
  for (auto& [round, table] : marks_) {
    std::fill_n(table.begin() + static_cast<std::ptrdiff_t>(reader * ranks), ranks, 0);
  }
}

std::shared_ptr<Group> MakeGroup(int32_t size) {
  Names& names = AllNames();
  const std::lock_guard<std::mutex> lock(names.mutex);
  auto group = std::make_shared<Group>(Concat("opst_group_", names.num_made++), size);
  names.groups.emplace(group->name(), group);
  return group;
}

std::shared_ptr<Group> JoinGroup(const std::string& name, int32_t size) {
  Names& names = AllNames();
  const std::lock_guard<std::mutex> lock(names.mutex);
  auto& group = names.groups[name];
  if (group == nullptr) group = std::make_shared<Group>(name, size);
  OPST_CHECK_ARG(group->size() == size, name, "all ranks must name the same number of ranks", size,
                 " after ", group->size());
  return group;
}

std::shared_ptr<Group> FindGroup(std::string_view name) {
  Names& names = AllNames();
  const std::lock_guard<std::mutex> lock(names.mutex);
  const auto found = names.groups.find(name);
  return found == names.groups.end() ? nullptr : found->second;
}

void ForgetGroup(std::string_view name) {
  Names& names = AllNames();
  const std::lock_guard<std::mutex> lock(names.mutex);
  const auto found = names.groups.find(name);
  if (found != names.groups.end()) names.groups.erase(found);
}

void AbandonGroups() {
  Names& names = AllNames();
  const std::lock_guard<std::mutex> lock(names.mutex);
  for (const auto& [name, group] : names.groups) group->Abandon();
  names.groups.clear();
}

}  // namespace opst::cann
