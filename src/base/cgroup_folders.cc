// Walks from the process's control group up to the mount point; v1 and v2 may be mounted together.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "base/cgroup_folders.h"

#include <algorithm>
#include <optional>

#include "base/check.h"
#include "base/small_file.h"
#include "base/strings.h"

namespace opst {
namespace {

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
std::optional<Mount> ParseMount(std::string_view line, CgroupVersion version,
                                std::string_view controller) {
  const size_t dash = line.find(" - ");
  if (dash == std::string_view::npos) return std::nullopt;
  const std::vector<std::string_view> left = Split(line.substr(0, dash), ' ');
  const std::vector<std::string_view> right = Split(line.substr(dash + 3), ' ');
  if (left.size() < 5 || right.empty()) return std::nullopt;
  const bool is_wanted = version == CgroupVersion::kV2
                             ? right[0] == "cgroup2"
                             : right[0] == "cgroup" && HasWord(right.back(), controller);
  if (!is_wanted) return std::nullopt;
  return Mount{std::string(left[3]), std::string(left[4])};
}

Mount FindMount(const std::string& root, CgroupVersion version, std::string_view controller) {
  const std::string text = ReadSmallFile(root + "/proc/self/mountinfo").value_or("");
  for (const std::string_view line : Split(text, '\n')) {
    if (std::optional<Mount> mount = ParseMount(line, version, controller)) return *mount;
  }
  const std::string usual = "/sys/fs/cgroup";
  return {"/", version == CgroupVersion::kV2 ? usual : Concat(usual, "/", controller)};
}

// The group's folder below the mount point, "" for the mount point itself.
std::string BelowMount(std::string_view group, const Mount& mount) {
  if (group.find("/..") != std::string_view::npos) return "";
  const std::string_view top = mount.top == "/" ? "" : std::string_view(mount.top);
  if (!group.starts_with(top)) return "";
  group.remove_prefix(top.size());
  return group == "/" || !group.starts_with('/') ? "" : std::string(group);
}

void AddUpwards(const std::string& root, std::string_view group, CgroupVersion version,
                std::string_view controller, std::vector<CgroupFolder>& folders) {
  const Mount mount = FindMount(root, version, controller);
  std::string below = BelowMount(group, mount);
  while (true) {
    folders.push_back({version, Concat(root, mount.point, below)});
    if (below.empty()) return;
    below.resize(below.rfind('/'));
  }
}

}  // namespace

std::vector<CgroupFolder> CgroupFolders(const std::string& root, std::string_view controller) {
  std::vector<CgroupFolder> folders;
  const std::string text = ReadSmallFile(root + "/proc/self/cgroup").value_or("");
  for (const std::string_view line : Split(text, '\n')) {
    // "0::/group" (v2) or "4:cpu,cpuacct:/group" (v1); a group's name may itself contain colons.
    const size_t first = line.find(':');
    const size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    const std::string_view group = line.substr(second + 1);
    if (controllers.empty()) {
      AddUpwards(root, group, CgroupVersion::kV2, controller, folders);
    } else if (HasWord(controllers, controller)) {
      AddUpwards(root, group, CgroupVersion::kV1, controller, folders);
    }
  }
  return folders;
}

}  // namespace opst
