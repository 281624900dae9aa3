// Example 2: loads a packed file that `opst convert` wrote and continues a text with it.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <opst/engine.h>
#include <opst/error.h>

#include <cstdio>
#include <string_view>

namespace {

int Run(const char* path, std::string_view prompt) {
  const opst::Context context;
  const opst::Engine engine = opst::Engine::Load(context, path);
  opst::GenerateOptions options{.max_new_tokens = 40, .sampling = {.temperature = 0.7f, .seed = 1}};
  options.on_text = [](std::string_view text) {  // whole UTF-8, as soon as it is certain
    std::fwrite(text.data(), 1, text.size(), stdout);
    return true;  // false stops
  };
  const opst::GenerateResult result = engine.Generate(context, prompt, options);

  std::printf("\n[%zu prompt tokens, %zu new ones]\n", result.prompt_tokens.size(),
              result.new_tokens.size());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s MODEL.opst PROMPT\n", argv[0]);
    return 2;
  }
  try {
    return Run(argv[1], argv[2]);
  } catch (const opst::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
