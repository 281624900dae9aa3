// The functions that the fuzzer and the replay test feed with bytes.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/testing/targets.h"

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "convert/gguf_source.h"
#include "io/safetensors.h"
#include "model/family.h"
#include "model/packed_model.h"
#include "opst/error.h"
#include "opst/tokenizer.h"
#include "text/jinja/template.h"

namespace opst::fuzz {
namespace {

template <typename Action>
void Swallow(Action&& action) {
  try {
    action();
  } catch (const Error&) {
    // what a bad file must end with
  }
}

// First and last byte, as a reader would touch them.
void Touch(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  volatile auto sum = std::to_integer<int>(bytes.front()) + std::to_integer<int>(bytes.back());
  static_cast<void>(sum);
}

}  // namespace

MemoryFile::MemoryFile(std::string_view bytes) : descriptor_(::memfd_create("fuzz", MFD_CLOEXEC)) {
  if (descriptor_ < 0) std::abort();
  if (::write(descriptor_, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) {
    std::abort();
  }
  path_ = "/proc/self/fd/" + std::to_string(descriptor_);
}

MemoryFile::~MemoryFile() { ::close(descriptor_); }

void FuzzSafetensors(std::string_view bytes) {
  const MemoryFile memory(bytes);
  Swallow([&] {
    const auto file = SafetensorsFile::Open(memory.path());
    for (const SafetensorsTensor& tensor : file.tensors()) {
      Touch(file.Bytes(tensor));
      Swallow([&] { file.View(tensor); });
    }
  });
}

void FuzzPacked(std::string_view bytes) {
  const MemoryFile memory(bytes);
  Swallow([&] {
    const auto model = PackedModel::Open(memory.path(), LoadMode::kMap);
    for (const PackedTensor& tensor : PackedTensors(model->config())) {
      Touch(model->file().Bytes(model->file().At(tensor.name())));
    }
    model->CheckChecksums();
  });
}

void FuzzGguf(std::string_view bytes) {
  const MemoryFile memory(bytes);
  Swallow([&] {
    const GgufSource source(memory.path(), DType::kBf16);
    for (const TextFile& file : source.text_files()) {
      if (file.name != "tokenizer.json") continue;
      Swallow([&] { Tokenizer::FromJson(file.content).Encode("Ab 12 \xF0\x9F"); });
    }
    for (const SourceTensor& tensor : source.tensors()) {
      if (tensor.tensor->num_bytes > 1 << 20) continue;
      Swallow([&] { Touch(source.Read(tensor).bytes()); });
    }
    Swallow([&] { ReadModelConfig(source.config_json(), "config.json"); });
  });
}

void FuzzTokenizer(std::string_view bytes) {
  Swallow([&] {
    const Tokenizer tokenizer = Tokenizer::FromJson(bytes);
    tokenizer.Decode(tokenizer.Encode("Hello wo\xCC\x81rld 1234\n\n\t \xE6\xBC\xA2 \xFF"));
  });
}

void FuzzConfig(std::string_view bytes) {
  Swallow([&] {
    const ModelConfig config = ReadModelConfig(bytes, "config.json");
    // A config of a few bytes may ask for the most layers and experts; their list is bounded too.
    if (config.num_layers <= 64) PackedTensors(config);
    config.ToJson();
  });
}

void FuzzTemplate(std::string_view bytes) {
  // Far tighter than for users, so that loops and repetitions end within the fuzzer's patience.
  const text::jinja::Limits limits{.max_steps = 20'000, .max_bytes = 1 << 19};
  Swallow([&] {
    const text::jinja::Template chat(bytes, limits);
    const auto messages = nlohmann::ordered_json::parse(
        R"([{"role": "user", "content": "Hi \u00e9"}, {"role": "assistant", "content": null,
             "tool_calls": [{"function": {"name": "f", "arguments": {"a": [1, 2.5]}}}]}])");
    chat.Render({{"messages", text::jinja::Value::FromJson(messages)},
                 {"add_generation_prompt", true},
                 {"bos_token", std::string("<s>")}},
                {});
  });
}

std::span<const Target> Targets() {
  static constexpr std::array kTargets{Target{"safetensors", FuzzSafetensors},
                                       Target{"packed", FuzzPacked},
                                       Target{"gguf", FuzzGguf},
                                       Target{"tokenizer", FuzzTokenizer},
                                       Target{"config", FuzzConfig},
                                       Target{"template", FuzzTemplate}};
  return kTargets;
}

}  // namespace opst::fuzz
