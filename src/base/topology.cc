// Reads cores and caches from the kernel's files and decides the number of workers.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "base/topology.h"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <thread>

#include "base/cgroup_quota.h"
#include "base/small_file.h"
#include "base/strings.h"

namespace opst {
namespace {

// Above any kernel's limit; keeps a nonsensical list from filling memory.
constexpr int kMaxCpu = 1 << 16;

std::vector<int> AffinityMask() {
  std::vector<int> cpus;
  for (int capacity = 1024; capacity <= kMaxCpu; capacity *= 2) {
    cpu_set_t* set = CPU_ALLOC(capacity);
    if (set == nullptr) break;
    const size_t bytes = CPU_ALLOC_SIZE(capacity);
    CPU_ZERO_S(bytes, set);
    const bool is_read = sched_getaffinity(0, bytes, set) == 0;
    const bool is_too_small = !is_read && errno == EINVAL;
    for (int cpu = 0; is_read && cpu < capacity; ++cpu) {
      if (CPU_ISSET_S(static_cast<size_t>(cpu), bytes, set)) cpus.push_back(cpu);
    }
    CPU_FREE(set);
    if (!is_too_small) break;
  }
  // A sandbox may forbid the question.
  const int count = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  for (int cpu = 0; cpus.empty() && cpu < count; ++cpu) cpus.push_back(cpu);
  return cpus;
}

std::string CpuFolder(const std::string& root, int cpu) {
  return Concat(root, "/sys/devices/system/cpu/cpu", cpu);
}

int CountCores(const std::string& root, const std::vector<int>& cpus) {
  std::set<int> first_siblings;
  for (const int cpu : cpus) {
    const std::string folder = CpuFolder(root, cpu) + "/topology/";
    std::optional<std::string> text = ReadSmallFile(folder + "core_cpus_list");
    if (!text) text = ReadSmallFile(folder + "thread_siblings_list");  // before Linux 5.3
    const std::vector<int> siblings = ParseCpuList(text.value_or(""));
    first_siblings.insert(siblings.empty() ? cpu : siblings.front());
  }
  return static_cast<int>(first_siblings.size());
}

// The rest of the line that starts with `key`, of files made of "key: value" lines.
std::string FieldOf(const std::string& text, std::string_view key) {
  for (const std::string_view line : Split(text, '\n')) {
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos || Trim(line.substr(0, colon)) != key) continue;
    return std::string(Trim(line.substr(colon + 1)));
  }
  return {};
}

// The CPUs of the process that started this one.
std::vector<int> ParentMask(const std::string& root) {
  const std::string own = ReadSmallFile(root + "/proc/self/status").value_or("");
  const std::string parent = FieldOf(own, "PPid");
  if (!ParseInt(parent)) return {};
  const std::string status = ReadSmallFile(Concat(root, "/proc/", parent, "/status")).value_or("");
  return ParseCpuList(FieldOf(status, "Cpus_allowed_list"));
}

void ReadCaches(const std::string& root, Topology& topology) {
  for (int index = 0; index < 8; ++index) {
    const std::string folder =
        Concat(CpuFolder(root, topology.cpus.front()), "/cache/index", index, "/");
    const std::string level(Trim(ReadSmallFile(folder + "level").value_or("")));
    const std::string type(Trim(ReadSmallFile(folder + "type").value_or("")));
    const std::string size(Trim(ReadSmallFile(folder + "size").value_or("")));
    const size_t bytes = ParseBytes(size).value_or(0);
    if (type == "Instruction") continue;
    if (level == "1") topology.l1d_bytes = bytes;
    if (level == "2") topology.l2_bytes = bytes;
    if (level == "3") topology.l3_bytes = bytes;
  }
}

std::string CpuModel(const std::string& root) {
  const std::string text = ReadSmallFile(root + "/proc/cpuinfo").value_or("");
  std::string model = FieldOf(text, "model name");
  if (!model.empty()) return model;
  // aarch64 kernels give numbers only.
  const std::string part = FieldOf(text, "CPU part");
  if (part.empty()) return {};
  return Concat("implementer ", FieldOf(text, "CPU implementer"), " part ", part);
}

std::string Count(int number, std::string_view what) {
  return Concat(number, " ", what, number == 1 ? "" : "s");
}

std::string Explain(const Topology& topology, int num_parent_cores) {
  std::string text = Concat(
      Count(topology.num_workers, "worker"), " (", Count(topology.num_cores, "physical core"),
      " of ", Count(static_cast<int>(topology.cpus.size()), "CPU"), " in the affinity mask");
  if (topology.quota) {
    const double hundredths = std::round(*topology.quota * 100);
    const auto whole = static_cast<int64_t>(hundredths) / 100;
    const auto rest = static_cast<int64_t>(hundredths) % 100;
    text += Concat("; cgroup quota ", whole, rest < 10 ? ".0" : ".", rest);
  }
  if (topology.num_local_ranks > 1) text += Concat("; ", topology.num_local_ranks, " local ranks");
  if (num_parent_cores > topology.num_cores) {
    text += Concat("; the process that started this one has ", num_parent_cores, " cores");
  }
  return text + ")";
}

}  // namespace

std::vector<int> ParseCpuList(const std::string& text) {
  std::vector<int> cpus;
  for (const std::string_view part : Split(text, ',')) {
    const size_t dash = part.find('-');
    const std::optional<int64_t> first = ParseInt(part.substr(0, dash));
    const std::optional<int64_t> last =
        dash == std::string_view::npos ? first : ParseInt(part.substr(dash + 1));
    if (!first || !last || *first < 0 || *last < *first || *last >= kMaxCpu) return {};
    for (int64_t cpu = *first; cpu <= *last; ++cpu) cpus.push_back(static_cast<int>(cpu));
  }
  std::sort(cpus.begin(), cpus.end());
  cpus.erase(std::unique(cpus.begin(), cpus.end()), cpus.end());
  return cpus;
}

int LocalRanksOfLauncher() {
  for (const char* name : {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS",
                           "MV2_COMM_WORLD_LOCAL_SIZE", "PMI_LOCAL_SIZE", "LOCAL_WORLD_SIZE"}) {
    const char* text = std::getenv(name);
    if (text == nullptr) continue;
    const std::optional<int64_t> ranks = ParseInt(text);
    if (ranks && *ranks >= 1 && *ranks <= kMaxCpu) return static_cast<int>(*ranks);
  }
  return 1;
}

Topology DetectTopology(const TopologyOptions& options) {
  Topology topology;
  topology.cpus = options.cpus.empty() ? AffinityMask() : options.cpus;
  topology.num_cores = CountCores(options.root, topology.cpus);
  topology.quota = CgroupCpuQuota(options.root);
  topology.num_local_ranks =
      options.num_local_ranks > 0 ? options.num_local_ranks : LocalRanksOfLauncher();

  // Dividing the own mask would be wrong when the launcher has already dealt out the cores, and
  // not dividing it wrong when ranks share it (e.g. all ranks of a socket); the launcher's mask
  // holds both cases apart.
  const int num_shared_cores =
      std::max(topology.num_cores, CountCores(options.root, ParentMask(options.root)));
  int num_workers = std::min(topology.num_cores, num_shared_cores / topology.num_local_ranks);
  if (topology.quota) {
    const double share = *topology.quota / topology.num_local_ranks;
    num_workers = static_cast<int>(std::min(static_cast<double>(num_workers), share));
  }
  topology.num_workers = std::max(1, num_workers);
  topology.explanation = Explain(topology, num_shared_cores);

  ReadCaches(options.root, topology);
  topology.cpu_model = CpuModel(options.root);
  return topology;
}

}  // namespace opst
