// The tool `opst`: parses the command line, runs one command, and turns errors into exit codes.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <iostream>
#include <new>

#include "command_line.h"
#include "commands.h"
#include "opst/error.h"
#include "opst/version.h"

namespace {

constexpr int kFailure = 1;
constexpr int kUsage = 2;

constexpr const char* kDescription =
    "opst runs Mixture-of-Experts language models on ordinary CPUs.\n\n"
    "  opst convert models/austen-moe austen.opst      a Hugging Face folder into one file\n"
    "  opst generate austen.opst \"It is a truth\"       text from it\n"
    "  opst bench layer --shape olmoe-1b-7b            how fast this machine is\n";

constexpr const char* kFooter =
    "\n`opst COMMAND --help` explains a command. Settings that every command takes (--threads,\n"
    "--isa, --load, ...) may also stand in the environment as OPST_THREADS, ... or in a file "
    "named\n"
    "by --config; see docs/environment.md. Exit codes: 0 success, 1 failure, 2 usage.";

void AddCommands(CLI::App& app) {
  opst::tool::AddConvert(app);
  opst::tool::AddInspect(app);
  opst::tool::AddGenerate(app);
  opst::tool::AddChat(app);
  opst::tool::AddPerplexity(app);
  opst::tool::AddPlan(app);
  opst::tool::AddBench(app);
  opst::tool::AddCompare(app);
}

// Help and version come as errors, too.
int ReportParseError(const CLI::App& app, const CLI::ParseError& error) {
  const bool may_be_misspelt =
      error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError) ||
      error.get_exit_code() == static_cast<int>(CLI::ExitCodes::RequiredError);
  if (may_be_misspelt && app.remaining_size(true) > 0) {
    std::fprintf(stderr, "opst: %s\n", opst::tool::UnknownArgumentText(app).c_str());
    return kUsage;
  }
  return app.exit(error) == 0 ? 0 : kUsage;
}

// A closed standard stream would lend its number to the next file that is opened: a model that is
// read as the prompt, an error message that is written into a result.
void OpenStandardStreams() {
  int descriptor = 0;
  do {
    descriptor = ::open("/dev/null", O_RDWR);
  } while (descriptor >= 0 && descriptor <= STDERR_FILENO);
  if (descriptor >= 0) ::close(descriptor);
}

// Output that did not arrive (a full disk) is a failure, whatever the command thought.
int ReportOutput(int exit_code) {
  std::cout.flush();
  const bool has_arrived = std::fflush(stdout) == 0 && std::ferror(stdout) == 0 && std::cout.good();
  if (has_arrived || exit_code != 0) return exit_code;
  std::fprintf(stderr, "opst: standard output must take what is written; it did not\n");
  return kFailure;
}

int Run(int argc, char** argv) {
  CLI::App app(kDescription, "opst");
  app.footer(kFooter);
  app.set_version_flag("--version", OPST_VERSION_STRING);
  app.require_subcommand(1);
  try {
    AddCommands(app);
    app.parse(opst::tool::ParserArguments(argc, argv));
    return 0;
  } catch (const CLI::ParseError& error) {
    return ReportParseError(app, error);
  } catch (const opst::Error& error) {
    std::fprintf(stderr, "opst: %s\n", error.what());
    return error.kind() == opst::ErrorKind::kInvalidArgument ? kUsage : kFailure;
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "opst: out of memory\n");
    return kFailure;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "opst: unexpected: %s\n", error.what());
    return kFailure;
  }
}

}  // namespace

int main(int argc, char** argv) {
  OpenStandardStreams();
  return ReportOutput(Run(argc, argv));
}
