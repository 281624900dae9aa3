// The folders of the control groups that this process is in; what stands in them is for others.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_BASE_CGROUP_FOLDERS_H_
#define OPST_BASE_CGROUP_FOLDERS_H_

#include <string>
#include <string_view>
#include <vector>

namespace opst {

enum class CgroupVersion { kV1, kV2 };

struct CgroupFolder {
  CgroupVersion version;
  std::string path;  // `root` included, without a slash at the end
};

// The process's own group and all groups above it that are visible, of cgroup v2 and of the v1
// hierarchy of `controller` ("cpu", "memory"), which may be mounted together; each from the
// innermost to the mount point. Groups outside of what is mounted (a container that sees the host's
// names) are represented by the mount point. `root` stands before /proc and /sys, "" for the
// running system.
std::vector<CgroupFolder> CgroupFolders(const std::string& root, std::string_view controller);

}  // namespace opst

#endif  // OPST_BASE_CGROUP_FOLDERS_H_
