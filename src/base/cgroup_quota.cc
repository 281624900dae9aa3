// Walks from the process's control group up to the mount point; v1 and v2 may be mounted together.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "base/cgroup_quota.h"

#include <algorithm>
#include <vector>

#include "base/small_file.h"
#include "base/strings.h"

namespace opst {
namespace {

enum class Version { kV1, kV2 };

// A mounted cgroup file system: `top` is the group that appears at `point`.
struct Mount {
  std::string top;
  std::string point;
};

bool HasWord(std::string_view list, std::string_view word) {
  const std::vector<std::string_view> words = Split(list, ',');
  return std::find(words.begin(), words.end(), word) != words.end();
}

// A line of mountinfo: "32 31 0:29 /top /point rw - cgroup cgroup rw,cpu".
std::optional<Mount> ParseMount(std::string_view line, Version version) {
  const size_t dash = line.find(" - ");
  if (dash == std::string_view::npos) return std::nullopt;
  const std::vector<std::string_view> left = Split(line.substr(0, dash), ' ');
  const std::vector<std::string_view> right = Split(line.substr(dash + 3), ' ');
  if (left.size() < 5 || right.empty()) return std::nullopt;
  const bool is_wanted = version == Version::kV2
                             ? right[0] == "cgroup2"
                             : right[0] == "cgroup" && HasWord(right.back(), "cpu");
  if (!is_wanted) return std::nullopt;
  return Mount{std::string(left[3]), std::string(left[4])};
}

Mount FindMount(const std::string& root, Version version) {
  const std::string text = ReadSmallFile(root + "/proc/self/mountinfo").value_or("");
  for (const std::string_view line : Split(text, '\n')) {
    if (std::optional<Mount> mount = ParseMount(line, version)) return *mount;
  }
  return {"/", version == Version::kV2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/cpu"};
}

// The group's folder below the mount point, "" for the mount point itself. Groups outside of what
// is mounted (a container that sees the host's names) are represented by the mount point.
std::string BelowMount(std::string_view group, const Mount& mount) {
  if (group.find("/..") != std::string_view::npos) return "";
  const std::string_view top = mount.top == "/" ? "" : std::string_view(mount.top);
  if (!group.starts_with(top)) return "";
  group.remove_prefix(top.size());
  return group == "/" || !group.starts_with('/') ? "" : std::string(group);
}

std::optional<double> Ratio(std::string_view quota, std::string_view period) {
  const std::optional<int64_t> numerator = ParseInt(quota);
  const std::optional<int64_t> denominator = ParseInt(period);
  if (!numerator || !denominator || *numerator <= 0 || *denominator <= 0) return std::nullopt;
  return static_cast<double>(*numerator) / static_cast<double>(*denominator);
}

std::optional<double> QuotaOf(const std::string& folder, Version version) {
  if (version == Version::kV2) {
    const std::string text = ReadSmallFile(folder + "/cpu.max").value_or("");
    const std::vector<std::string_view> words = Split(text, ' ');
    return words.size() == 2 ? Ratio(words[0], words[1]) : std::nullopt;
  }
  const std::string quota = ReadSmallFile(folder + "/cpu.cfs_quota_us").value_or("");
  const std::string period = ReadSmallFile(folder + "/cpu.cfs_period_us").value_or("");
  return Ratio(Trim(quota), Trim(period));
}

std::optional<double> Smaller(std::optional<double> a, std::optional<double> b) {
  if (a && b) return std::min(*a, *b);
  return a ? a : b;
}

std::optional<double> QuotaUpwards(const std::string& root, std::string_view group,
                                   Version version) {
  const Mount mount = FindMount(root, version);
  std::string below = BelowMount(group, mount);
  std::optional<double> smallest;
  while (true) {
    smallest = Smaller(smallest, QuotaOf(Concat(root, mount.point, below), version));
    if (below.empty()) return smallest;
    below.resize(below.rfind('/'));
  }
}

}  // namespace

std::optional<double> CgroupCpuQuota(const std::string& root) {
  std::optional<double> smallest;
  const std::string text = ReadSmallFile(root + "/proc/self/cgroup").value_or("");
  for (const std::string_view line : Split(text, '\n')) {
    // "0::/group" (v2) or "4:cpu,cpuacct:/group" (v1); a group's name may itself contain colons.
    const size_t first = line.find(':');
    const size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    const std::string_view group = line.substr(second + 1);
    if (controllers.empty()) {
      smallest = Smaller(smallest, QuotaUpwards(root, group, Version::kV2));
    } else if (HasWord(controllers, "cpu")) {
      smallest = Smaller(smallest, QuotaUpwards(root, group, Version::kV1));
    }
  }
  return smallest;
}

}  // namespace opst
