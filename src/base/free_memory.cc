// Reads /proc and the control group's files.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "base/free_memory.h"

#include <algorithm>
#include <cstdint>
#include <optional>

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

// Limit minus what is used and cannot be dropped (file pages can). Both cgroup versions.
size_t FreeInGroup(const std::string& folder, std::string_view limit_file,
                   std::string_view usage_file, std::string_view file_key) {
  const auto limit = FindNumberIn(Concat(folder, limit_file), "");
  const auto usage = FindNumberIn(Concat(folder, usage_file), "");
  if (!limit || !usage) return SIZE_MAX;  // "max", or no such group
  const size_t files = FindNumberIn(Concat(folder, "memory.stat"), file_key).value_or(0);
  const size_t held = *usage - std::min(*usage, files);
  return *limit - std::min(*limit, held);
}

}  // namespace

size_t FreeMemoryBytes(const std::string& root) {
  const auto available = FindNumberIn(root + "/proc/meminfo", "MemAvailable:");
  const size_t in_group =
      FreeInGroup(root + "/sys/fs/cgroup/", "memory.max", "memory.current", "inactive_file ");
  const size_t in_group_v1 = FreeInGroup(root + "/sys/fs/cgroup/memory/", "memory.limit_in_bytes",
                                         "memory.usage_in_bytes", "total_inactive_file ");
  return std::min({available.value_or(SIZE_MAX), in_group, in_group_v1});
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
