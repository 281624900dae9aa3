// The smallest CPU quota of the process's control groups.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "base/cgroup_quota.h"

#include <algorithm>
#include <vector>

#include "base/cgroup_folders.h"
#include "base/small_file.h"
#include "base/strings.h"

namespace opst {
namespace {

std::optional<double> Ratio(std::string_view quota, std::string_view period) {
  const std::optional<int64_t> numerator = ParseInt(quota);
  const std::optional<int64_t> denominator = ParseInt(period);
  if (!numerator || !denominator || *numerator <= 0 || *denominator <= 0) return std::nullopt;
  return static_cast<double>(*numerator) / static_cast<double>(*denominator);
}

std::optional<double> QuotaOf(const CgroupFolder& folder) {
  if (folder.version == CgroupVersion::kV2) {
    const std::string text = ReadSmallFile(folder.path + "/cpu.max").value_or("");
    const std::vector<std::string_view> words = Split(text, ' ');
    return words.size() == 2 ? Ratio(words[0], words[1]) : std::nullopt;
  }
  const std::string quota = ReadSmallFile(folder.path + "/cpu.cfs_quota_us").value_or("");
  const std::string period = ReadSmallFile(folder.path + "/cpu.cfs_period_us").value_or("");
  return Ratio(Trim(quota), Trim(period));
}

}  // namespace

std::optional<double> CgroupCpuQuota(const std::string& root) {
  std::optional<double> smallest;
  for (const CgroupFolder& folder : CgroupFolders(root, "cpu")) {
    const std::optional<double> quota = QuotaOf(folder);
    if (quota) smallest = std::min(*quota, smallest.value_or(*quota));
  }
  return smallest;
}

}  // namespace opst
