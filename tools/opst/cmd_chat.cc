// `opst chat`: a conversation with a model whose checkpoint has a chat template.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <optional>

#include "base/strings.h"
#include "command_line.h"
#include "commands.h"
#include "generation_flags.h"
#include "interrupt.h"
#include "memory_check.h"
#include "opst/engine.h"
#include "result_report.h"
#include "terminal_text.h"

namespace opst::tool {
namespace {

// Keys and values of the whole context are reserved at the start.
constexpr int64_t kDefaultContext = 4096;
constexpr const char* kHelp =
    "/reset forgets the conversation, /system TEXT sets the system message and does so too,\n"
    "/exit or the end of input ends, /help shows this. Ctrl-C stops an answer.\n";

struct ChatArguments {
  std::string model;
  std::string system;
  std::string variables;
  GenerationFlags flags;
  MemoryFlags memory;
  bool shows_prompt = false;
};

class Conversation {
 public:
  Conversation(const Context& context, const Engine& engine, const ChatArguments& arguments,
               GenerateOptions options)
      : context_(context),
        engine_(engine),
        arguments_(arguments),
        options_(std::move(options)),
        template_(engine.LoadChatTemplate()),
        cache_(engine.model(), options_.context_length) {
    options_.cache = &cache_;
    options_.begins_text = true;
    options_.is_cancelled = [this] { return interrupt_.requested(); };
    options_.on_text = [](std::string_view text) {
      PrintText(text);
      return true;
    };
    Restart(arguments.system);
  }

  // Reads lines until there are no more.
  void Run() {
    const bool is_terminal = isatty(STDIN_FILENO) != 0;
    if (is_terminal) std::fputs(kHelp, stderr);
    while (true) {
      if (is_terminal) std::fputs("> ", stderr);
      const std::optional<std::string> line = ReadInputLine();
      if (!line || *line == "/exit") break;
      if (!line->empty() && !RunCommand(*line)) Answer(*line);
    }
    interrupt_.EndIfRequested();
  }

 private:
  void Restart(std::string_view system) {
    messages_.clear();
    if (!system.empty()) messages_.push_back({"system", std::string(system)});
  }

  // Whether the line was a command.
  bool RunCommand(const std::string& line) {
    if (line[0] != '/') return false;
    const std::string_view name = std::string_view(line).substr(0, line.find(' '));
    if (name == "/reset") {
      const bool has_system = !messages_.empty() && messages_[0].role == "system";
      Restart(has_system ? messages_[0].content : std::string());
    } else if (name == "/system") {
      Restart(Trim(std::string_view(line).substr(name.size())));
    } else {
      if (name != "/help") std::fprintf(stderr, "unknown command %s\n", line.c_str());
      std::fputs(kHelp, stderr);
    }
    return true;
  }

  void Answer(const std::string& line) {
    messages_.push_back({"user", line});
    try {
      const std::string prompt =
          template_.Render(messages_, {.variables_json = arguments_.variables});
      if (arguments_.shows_prompt) std::fprintf(stderr, "%s\n", prompt.c_str());
      const std::vector<int32_t> tokens =
          engine_.tokenizer().Encode(prompt, {.add_special_tokens = false});
      const GenerateResult result = engine_.GenerateFromTokens(context_, tokens, options_);
      PrintText("\n");
      messages_.push_back({"assistant", result.text});
      if (!arguments_.memory.is_quiet) PrintSpeed(result);
    } catch (const Error& error) {
      // A refused message is taken back; the conversation goes on. Without a terminal nobody could.
      messages_.pop_back();
      if (isatty(STDIN_FILENO) == 0) throw;
      std::fprintf(stderr, "opst: %s\n", error.what());
    }
    if (isatty(STDIN_FILENO) != 0) {
      interrupt_.Reset();
    } else {
      interrupt_.EndIfRequested();
    }
  }

  const Context& context_;
  const Engine& engine_;
  const ChatArguments& arguments_;
  GenerateOptions options_;
  ChatTemplate template_;
  PromptCache cache_;
  Interrupt interrupt_;
  std::vector<ChatMessage> messages_;
};

void RunChat(const Settings& settings, const ChatArguments& arguments) {
  GenerateOptions options = arguments.flags.Parsed();
  const Context context = settings.MakeContext();
  const MemoryPlan plan =
      PlanFile(settings, arguments.model, [&](const ModelConfig& config) -> MemoryPlanOptions {
        if (options.context_length == 0) {
          options.context_length = std::min(config.max_positions, kDefaultContext);
        }
        return {.context_length = std::min(options.context_length, kMaxPlannedLength),
                .prefill_chunk = options.prefill_chunk};
      });
  CheckMemory(plan, arguments.memory);
  const Engine engine = Engine::Load(context, arguments.model);
  Conversation(context, engine, arguments, options).Run();
}

}  // namespace

void AddChat(CLI::App& app) {
  auto settings = std::make_shared<Settings>();
  auto arguments = std::make_shared<ChatArguments>();
  arguments->flags.options.max_new_tokens = 512;
  CLI::App* command = app.add_subcommand(
      "chat", "Talk with a model that has a chat template; each line of input is a message");
  command->add_option("model", arguments->model, "Packed file that `opst convert` wrote")
      ->required();
  command->add_option("--system", arguments->system, "System message")->type_name("TEXT");
  command
      ->add_option(BothSpellings("--template-variables"), arguments->variables,
                   "JSON object for the template, e.g. '{\"enable_thinking\": false}'")
      ->type_name("JSON");
  command->add_flag(BothSpellings("--show-prompt"), arguments->shows_prompt,
                    "Print the text that the template makes of the conversation");
  AddGenerationFlags(*command, arguments->flags);
  AddMemoryFlags(*command, arguments->memory);
  command->add_flag("-q,--quiet", arguments->memory.is_quiet, "Only the answers");
  AddSettings(*command, settings);
  command->callback([settings, arguments] { RunChat(*settings, *arguments); });
}

}  // namespace opst::tool
