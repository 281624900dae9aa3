// How many CPUs' worth of time the process's control groups allow; sets no limits itself.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_BASE_CGROUP_QUOTA_H_
#define OPST_BASE_CGROUP_QUOTA_H_

#include <optional>
#include <string>

namespace opst {

// The smallest quota / period of the process's own group and all groups above it that are visible
// (cgroup v2 `cpu.max`, v1 `cpu.cfs_quota_us`), e.g. 1.5; nothing when unlimited or unreadable.
// `root` stands before /proc and /sys, "" for the running system.
std::optional<double> CgroupCpuQuota(const std::string& root);

}  // namespace opst

#endif  // OPST_BASE_CGROUP_QUOTA_H_
