// The table of settings and the documentation made from it; values are parsed in config.cc.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "base/config.h"
#include "base/strings.h"

namespace opst {
namespace {

// Add a row here, copy the text that ConfigTest prints to docs/environment.md, and read the key.
constexpr auto kTable = std::to_array<ConfigRow>({
    {.key = "config",
     .environment = "OPST_CONFIG",
     .type = ConfigType::kText,
     .default_value = "",
     .help = "settings file, .json or .ini, weaker than every other source"},
    {.key = "threads",
     .environment = "OPST_THREADS",
     .type = ConfigType::kInt,
     .default_value = "auto",
     .help = "workers, the calling thread included; auto = the physical cores that the process may "
             "really use (affinity mask, cgroup quota, local ranks)",
     .max = 4096},
    {.key = "log",
     .environment = "OPST_LOG",
     .type = ConfigType::kChoices,
     .default_value = "warning",
     .help = "level and topics; `dispatch` shows which implementation ran and why faster ones did "
             "not",
     .choices = "error|warning|info|debug|dispatch"},
    {.key = "isa",
     .environment = "OPST_ISA",
     .type = ConfigType::kChoice,
     .default_value = "auto",
     .help = "instruction set of the kernels, one per process; auto = the best one of this CPU, "
             "baseline = the simplest one built (sse2 or neon), avx3 = avx512",
     .choices = "auto|avx512_vnni|avx512|avx2|sse2|neon|baseline|avx3"},
    {.key = "implementation",
     .environment = "OPST_IMPLEMENTATION",
     .type = ConfigType::kChoice,
     .default_value = "auto",
     .help =
         "reference = the slow, obvious implementation of every operator, to find out whether a "
         "fast one is wrong",
     .choices = "auto|reference"},
    {.key = "act",
     .environment = "OPST_ACT",
     .type = ConfigType::kChoice,
     .default_value = "int16",
     .help =
         "what activations are rounded to where weights are int8 or int4, group by group: int16 "
         "loses next to nothing, int8 loses about as much as int8 weights do, f32 nothing; auto = "
         "int8 from 4 rows a matrix on, else int16, so that a result depends on its batch",
     .choices = "int16|int8|f32|auto"},
    {.key = "stage1_buffer_size",
     .environment = "OPST_STAGE1_BUFFER_SIZE",
     .type = ConfigType::kBytes,
     .default_value = "256MB",
     .help = "bound on the workspace of one layer call; longer batches run in chunks"},
    {.key = "expert_batch_size",
     .environment = "OPST_EXPERT_BATCH_SIZE",
     .type = ConfigType::kInt,
     .default_value = "auto",
     .help = "rows of one expert that form a task",
     .max = 1 << 20},
    {.key = "load",
     .environment = "OPST_LOAD",
     .type = ConfigType::kChoice,
     .default_value = "map",
     .help = "map = weights stay in the page cache and are shared between processes; read = a "
             "private copy in huge pages",
     .choices = "map|read"},
    {.key = "check_on_load",
     .environment = "OPST_CHECK_ON_LOAD",
     .type = ConfigType::kBool,
     .default_value = "off",
     .help = "compares the checksum of every tensor when a model is loaded, which reads the whole "
             "file"},
    {.key = "force_fp32",
     .environment = "OPST_FORCE_FP32",
     .type = ConfigType::kBool,
     .default_value = "off",
     .help = "computes everything in f32, whatever the weights' type: `act` counts as f32",
     .environment_alias = "NPU_FORCE_FP32"},
    {.key = "huge_pages",
     .environment = "OPST_HUGE_PAGES",
     .type = ConfigType::kBool,
     .default_value = "on",
     .help = "asks for 2 MB pages for scratch, packed weights, model files, keys and values"},
});

constexpr std::string_view kDocsHead = R"(# Settings and environment variables
<!-- Every setting of the library and the tool; made from src/base/config_table.cc, not by hand. -->
<!-- SPDX-FileCopyrightText: ops-transformer authors -->
<!-- SPDX-License-Identifier: Apache-2.0 -->

Each setting has one name, written in five ways. For `stage1_buffer_size`:

| where | how |
|---|---|
| command line | `opst ... --stage1-buffer-size 64MB` (`--stage1_buffer_size` works too) |
| C++ | `opst::ContextOptions{.settings = {{"stage1_buffer_size", "64MB"}}}` |
| C | `{"stage1_buffer_size", "64MB"}` among the `settings` of `opst_context_options` |
| environment | `OPST_STAGE1_BUFFER_SIZE=64MB` |
| file | `stage1_buffer_size = 64MB` in an `.ini`, `{"stage1_buffer_size": "64MB"}` in a `.json`; named by `--config FILE` or `OPST_CONFIG` |

The first of these wins: argument or flag, environment, file, default.
The environment is read once, when a `Context` is made; a variable that is set but empty counts as not set.
An unknown key, an unknown `OPST_` variable and a value of the wrong type are errors that name the nearest known name.

| setting | variable | value | default | meaning |
|---|---|---|---|---|
)";

constexpr std::string_view kDocsTail = R"(
Booleans: `on` `off`, `1` `0`, `true` `false`, `yes` `no`. Bytes: a number, with `KB`, `MB`, `GB` or `TB` as powers of 1024.

## How many workers

Without a number in `threads`, a process uses one worker per physical core that it may really use:

- CPUs outside the affinity mask (`taskset`, cpusets, batch systems) do not count; SMT siblings count once;
- a cgroup CPU quota (containers) is rounded down, but never below one worker;
- ranks on the same machine share cores and quota. Their number is taken from `OMPI_COMM_WORLD_LOCAL_SIZE`, `MPI_LOCALNRANKS`, `MV2_COMM_WORLD_LOCAL_SIZE`, `PMI_LOCAL_SIZE` or `LOCAL_WORLD_SIZE`, the first that is set. Cores that the launcher already bound to this rank alone are not divided again.

`OPST_LOG=info` prints the choice and its reasons in one line.
)";

// OPST_ variables of the scripts, which a child process may inherit.
constexpr auto kScriptVariables = std::to_array<std::string_view>({"OPST_SKIP_TORCH", "OPST_TOOL"});

std::string NumberText(double value) {
  return value == static_cast<double>(static_cast<int64_t>(value))
             ? Concat(static_cast<int64_t>(value))
             : Concat(value);
}

// '|' would end a table cell.
std::string Cell(std::string_view text) {
  std::string cell;
  for (const char c : text) {
    if (c == '|') cell += '\\';
    cell += c;
  }
  return cell;
}

}  // namespace

std::span<const ConfigRow> ConfigTable() { return kTable; }

std::span<const std::string_view> ScriptVariables() { return kScriptVariables; }

std::string FlagName(const ConfigRow& row) {
  std::string flag = Concat("--", row.key);
  for (char& c : flag) {
    if (c == '_') c = '-';
  }
  return flag;
}

std::string ValueHint(const ConfigRow& row) {
  const bool is_bounded = row.max < std::numeric_limits<double>::infinity();
  const std::string range = is_bounded ? Concat(NumberText(row.min), " to ", NumberText(row.max))
                                       : Concat(">= ", NumberText(row.min));
  switch (row.type) {
    case ConfigType::kBool:
      return "on|off";
    case ConfigType::kInt:
      return Concat("int ", range);
    case ConfigType::kFloat:
      return Concat("float ", range);
    case ConfigType::kBytes:
      return "bytes";
    case ConfigType::kChoice:
      return std::string(row.choices);
    case ConfigType::kChoices:
      return Concat(row.choices, ", comma-separated");
    case ConfigType::kText:
      return "text";
  }
  return {};
}

std::string ConfigDocs() {
  std::string docs(kDocsHead);
  for (const ConfigRow& row : ConfigTable()) {
    const std::string shown = row.default_value.empty() ? "" : Concat("`", row.default_value, "`");
    const std::string alias =
        row.environment_alias.empty() ? "" : Concat(", also `", row.environment_alias, "`");
    docs += Concat("| `", row.key, "` | `", row.environment, "`", alias, " | ",
                   Cell(ValueHint(row)), " | ", shown, " | ", Cell(row.help), " |\n");
  }
  docs += kDocsTail;
  docs += "\nRead by the scripts only, ignored by the library:";
  for (const std::string_view name : kScriptVariables) docs += Concat(" `", name, "`");
  return docs + ".\n";
}

}  // namespace opst
