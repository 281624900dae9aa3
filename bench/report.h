// What a benchmark hands back: a text for people, notes, and JSON. It prints and measures nothing.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_BENCH_REPORT_H_
#define OPST_BENCH_REPORT_H_

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "bench/machine.h"
#include "bench/statistics.h"

namespace opst::bench {

// Called with steps done and in all.
using ProgressFn = std::function<void(uint64_t done, uint64_t total)>;

// JSON, schema "opst-bench/1":
//   command  "layer", …
//   machine  cpu, isa, threads, caches, memory, system, compiler, date, version, commit (or null)
//   options  of the command; for layers also the shape
//   limits   [{name, threads, unit, median, min, max, runs, note}]
//   rows     [{…}], one a line of the table; spreads as {median, min, max, runs}
struct Report {
  std::string text;                // lines with line ends, for standard output
  std::vector<std::string> notes;  // without line ends, for standard error
  std::string json;                // a document with a line end
};

// Rounded to five digits: more are noise.
nlohmann::ordered_json ToJson(double value);
nlohmann::ordered_json ToJson(const Summary& summary);
nlohmann::ordered_json ToJson(const Machine& machine);

struct Limit;

// The document described above.
std::string JsonDocument(std::string_view command, const Machine& machine,
                         nlohmann::ordered_json options, const std::vector<Limit>& limits,
                         nlohmann::ordered_json rows);

// "fewer than 5 runs …", when that is so.
void NoteFewRuns(int runs, std::vector<std::string>& notes);

}  // namespace opst::bench

#endif  // OPST_BENCH_REPORT_H_
