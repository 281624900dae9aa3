// Reads /proc and the control group's files.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "base/free_memory.h"

#include <algorithm>
#include <cstdint>
#include <optional>

#include "base/cgroup_folders.h"
#include "base/small_file.h"
#include "base/strings.h"

namespace opst {
namespace {

// The number behind `key` in lines such as "MemAvailable:  123 kB" or "inactive_file 123".
std::optional<size_t> FindNumber(const std::string& text, std::string_view key) {
  for (const std::string_view line : Split(text, '\n')) {
    if (!line.starts_with(key)) continue;
    std::string_view value = Trim(line.substr(key.size()));
    const bool is_kilobytes = value.ends_with(" kB");
    if (is_kilobytes) value.remove_suffix(3);
    const auto number = ParseInt(Trim(value));
    if (!number || *number < 0) return std::nullopt;
    return static_cast<size_t>(*number) * (is_kilobytes ? 1024 : 1);
  }
  return std::nullopt;
}

std::optional<size_t> FindNumberIn(const std::string& path, std::string_view key) {
  const auto text = ReadSmallFile(path);
  return text ? FindNumber(*text, key) : std::nullopt;
}

// Limit minus what is used and cannot be dropped (file pages can).
size_t FreeInGroup(const CgroupFolder& folder) {
  const bool is_v2 = folder.version == CgroupVersion::kV2;
  const auto number = [&](std::string_view file, std::string_view key) {
    return FindNumberIn(Concat(folder.path, file), key);
  };
  const auto limit = number(is_v2 ? "/memory.max" : "/memory.limit_in_bytes", "");
  const auto usage = number(is_v2 ? "/memory.current" : "/memory.usage_in_bytes", "");
  if (!limit || !usage) return SIZE_MAX;  // "max", or no such group
  const size_t files =
      number("/memory.stat", is_v2 ? "inactive_file " : "total_inactive_file ").value_or(0);
  const size_t held = *usage - std::min(*usage, files);
  return *limit - std::min(*limit, held);
}

}  // namespace

size_t FreeMemoryBytes(const std::string& root) {
  size_t least = FindNumberIn(root + "/proc/meminfo", "MemAvailable:").value_or(SIZE_MAX);
  for (const CgroupFolder& folder : CgroupFolders(root, "memory")) {
    least = std::min(least, FreeInGroup(folder));
  }
  // Where /proc does not say which group it is.
  const std::string usual = root + "/sys/fs/cgroup";
  least = std::min(least, FreeInGroup({CgroupVersion::kV2, usual}));
  return std::min(least, FreeInGroup({CgroupVersion::kV1, usual + "/memory"}));
}

void RequireFreeMemory(std::string_view where, std::string_view what, size_t needed_bytes,
                       std::string_view advice, const std::string& root) {
  const size_t free_bytes = FreeMemoryBytes(root);
  if (needed_bytes <= free_bytes) return;
  Throw(ErrorKind::kOutOfMemory, where, Concat(what, " must fit the free memory; ", advice),
        Concat(FormatBytes(needed_bytes), " needed, ", FormatBytes(free_bytes), " free"));
}

size_t PeakResidentBytes() { return FindNumberIn("/proc/self/status", "VmHWM:").value_or(0); }

size_t HugePageBytes() {
  return FindNumberIn("/proc/self/smaps_rollup", "AnonHugePages:").value_or(0);
}

}  // namespace opst
