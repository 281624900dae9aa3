// Writes facts and figures as JSON.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/report.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/check.h"
#include "bench/limits.h"

namespace opst::bench {

using Json = nlohmann::ordered_json;

namespace {

Json TextOrNull(const std::string& text) { return text.empty() ? Json() : Json(text); }

Json LimitJson(const Limit& limit) {
  Json json = {{"name", limit.name}, {"threads", limit.threads}, {"unit", limit.unit}};
  json.update(ToJson(limit.value));
  json["note"] = limit.note;
  return json;
}

}  // namespace

Json ToJson(double value) {
  if (!std::isfinite(value)) return Json();
  if (value == 0) return Json(0.0);
  const int digits = 4 - static_cast<int>(std::floor(std::log10(std::fabs(value))));
  // Dividing by a power of ten gives the shortest decimal; multiplying by 10⁻ⁿ would not.
  if (digits >= 0) {
    const double scale = std::pow(10.0, digits);
    return Json(std::round(value * scale) / scale);
  }
  const double scale = std::pow(10.0, -digits);
  return Json(std::round(value / scale) * scale);
}

Json ToJson(const Summary& summary) {
  if (summary.runs == 0) return Json();
  return {{"median", ToJson(summary.median)},
          {"min", ToJson(summary.min)},
          {"max", ToJson(summary.max)},
          {"runs", summary.runs}};
}

Json ToJson(const Machine& machine) {
  return {{"cpu", TextOrNull(machine.cpu)},       {"isa", machine.isa},
          {"threads", machine.threads},           {"l1d_bytes", machine.l1d_bytes},
          {"l2_bytes", machine.l2_bytes},         {"l3_bytes", machine.l3_bytes},
          {"memory_bytes", machine.memory_bytes}, {"system", TextOrNull(machine.system)},
          {"compiler", machine.compiler},         {"date", TextOrNull(machine.date)},
          {"version", machine.build.version},     {"commit", TextOrNull(machine.build.commit)},
          {"target", machine.build.target}};
}

std::string JsonDocument(std::string_view command, const Machine& machine, Json options,
                         const std::vector<Limit>& limits, Json rows) {
  Json document = {{"schema", "opst-bench/1"}, {"command", command}, {"machine", ToJson(machine)}};
  document["options"] = std::move(options);
  document["limits"] = Json::array();
  for (const Limit& limit : limits) document["limits"].push_back(LimitJson(limit));
  document["rows"] = std::move(rows);
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

void NoteFewRuns(int runs, std::vector<std::string>& notes) {
  constexpr int kFewestRuns = 5;
  if (runs >= kFewestRuns) return;
  notes.push_back(Concat("fewer than ", kFewestRuns, " runs: good for a look, not for a claim"));
}

}  // namespace opst::bench
