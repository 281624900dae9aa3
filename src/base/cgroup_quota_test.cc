// Tests of quotas in both cgroup versions, as containers and batch systems set them up.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "base/cgroup_quota.h"

#include <gtest/gtest.h>

#include "base/testing/fake_system.h"

namespace opst {
namespace {

TEST(CgroupQuotaTest, NoFilesMeanNoQuota) {
  const FakeSystem system;
  EXPECT_EQ(CgroupCpuQuota(system.root()), std::nullopt);
}

TEST(CgroupQuotaTest, MaxMeansNoQuota) {
  const FakeSystem system;
  system.Write("/proc/self/cgroup", "0::/");
  system.Write("/sys/fs/cgroup/cpu.max", "max 100000");
  EXPECT_EQ(CgroupCpuQuota(system.root()), std::nullopt);
}

TEST(CgroupQuotaTest, SmallestQuotaOnTheWayUpCounts) {
  const FakeSystem system;
  system.Write("/proc/self/cgroup", "0::/batch/job/step");
  system.Write("/sys/fs/cgroup/batch/job/step/cpu.max", "max 100000");
  system.Write("/sys/fs/cgroup/batch/job/cpu.max", "250000 100000");
  system.Write("/sys/fs/cgroup/batch/cpu.max", "800000 100000");
  EXPECT_EQ(CgroupCpuQuota(system.root()), 2.5);
}

TEST(CgroupQuotaTest, OtherGroupsDoNotCount) {
  const FakeSystem system;
  system.Write("/proc/self/cgroup", "0::/mine");
  system.Write("/sys/fs/cgroup/other/cpu.max", "100000 100000");
  system.Write("/sys/fs/cgroup/mine/other/cpu.max", "100000 100000");
  EXPECT_EQ(CgroupCpuQuota(system.root()), std::nullopt);
}

TEST(CgroupQuotaTest, HostNameOfAContainersGroupEndsAtTheMountPoint) {
  const FakeSystem system;
  system.Write("/proc/self/cgroup", "0::/../../somewhere");
  system.Write("/sys/fs/cgroup/cpu.max", "300000 100000");
  EXPECT_EQ(CgroupCpuQuota(system.root()), 3.0);
}

TEST(CgroupQuotaTest, Version1AtItsUsualPlace) {
  const FakeSystem system;
  system.Write("/proc/self/cgroup", "5:memory:/a\n4:cpu,cpuacct:/a\n3:cpuset:/b");
  system.Write("/sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "150000");
  system.Write("/sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "50000");
  system.Write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1");
  system.Write("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000");
  EXPECT_EQ(CgroupCpuQuota(system.root()), 3.0);
}

TEST(CgroupQuotaTest, Version1MountedFromTheContainersGroup) {
  const FakeSystem system;
  system.Write("/proc/self/cgroup", "4:cpu,cpuacct:/docker/17");
  system.Write("/proc/self/mountinfo",
               "30 23 0:28 / /sys rw - sysfs sysfs rw\n"
               "31 30 0:29 /docker/17 /mnt/groups ro shared:9 - cgroup cgroup rw,cpu,cpuacct");
  system.Write("/mnt/groups/cpu.cfs_quota_us", "400000");
  system.Write("/mnt/groups/cpu.cfs_period_us", "100000");
  EXPECT_EQ(CgroupCpuQuota(system.root()), 4.0);
}

TEST(CgroupQuotaTest, HybridMountsAreBothRead) {
  const FakeSystem system;
  system.Write("/proc/self/cgroup", "1:cpu:/\n0::/user");
  system.Write("/proc/self/mountinfo",
               "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
               "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw");
  system.Write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "300000");
  system.Write("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000");
  system.Write("/sys/fs/cgroup/unified/user/cpu.max", "200000 100000");
  EXPECT_EQ(CgroupCpuQuota(system.root()), 2.0);
}

TEST(CgroupQuotaTest, NonsenseIsIgnored) {
  const FakeSystem system;
  system.Write("/proc/self/cgroup", "nonsense\n0:\n:::\n0::relative\n0::/a");
  system.Write("/proc/self/mountinfo", "- - -\n1 2 3 - cgroup2\n");
  system.Write("/sys/fs/cgroup/a/cpu.max", "100000 0");
  system.Write("/sys/fs/cgroup/cpu.max", "-5 100000 7");
  EXPECT_EQ(CgroupCpuQuota(system.root()), std::nullopt);
}

}  // namespace
}  // namespace opst
