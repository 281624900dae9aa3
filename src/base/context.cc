// Puts a Context together: settings first, then the log they ask for, then the workers.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "opst/context.h"

#include "base/config.h"
#include "base/log.h"
#include "base/scratch_pool.h"
#include "base/thread_pool.h"
#include "base/topology.h"

namespace opst {
namespace {

int ChooseWorkers(const Config& config, const Logger& log) {
  const int chosen = static_cast<int>(config.GetInt("threads"));
  if (chosen > 0) {
    const std::string_view source = config.source("threads");
    log.Write(LogLevel::kInfo, chosen, chosen == 1 ? " worker" : " workers", " (threads set by ",
              source, ")");
    return chosen;
  }
  const Topology topology = DetectTopology();
  log.Write(LogLevel::kInfo, topology.explanation);
  return topology.num_workers;
}

}  // namespace

Context::Context(ContextOptions options) {
  if (options.num_threads != 0) {
    options.settings.emplace_back("threads", std::to_string(options.num_threads));
  }
  config_ = std::make_unique<Config>(options.settings);
  log_ = std::make_unique<Logger>(config_->GetChoices("log"), std::move(options.log_sink));
  scratch_ = std::make_unique<ScratchPool>(
      BufferOptions{.is_zeroed = false, .use_huge_pages = config_->GetBool("huge_pages")});
  pool_ = std::make_unique<ThreadPool>(ChooseWorkers(*config_, *log_));
}

Context::~Context() = default;

int Context::num_threads() const { return pool_->num_workers(); }

}  // namespace opst
