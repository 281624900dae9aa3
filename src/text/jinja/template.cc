// Parses once, evaluates per call.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/template.h"

#include "text/jinja/evaluator.h"
#include "text/jinja/parser.h"

namespace opst::text::jinja {
namespace {

std::string_view CheckedSource(std::string_view source, const Limits& limits) {
  if (source.size() > limits.max_source_bytes) {
    Fail(Concat("a template must have at most ", limits.max_source_bytes, " bytes"),
         std::to_string(source.size()));
  }
  return source;
}

}  // namespace

Template::Template(std::string_view source, const Limits& limits)
    : limits_(limits), block_(Parser(CheckedSource(source, limits), limits).Parse()) {}

std::string Template::Render(const Variables& variables, const std::tm& now) const {
  Evaluator evaluator(limits_, now);
  for (const auto& [name, value] : variables) evaluator.Define(name, value);
  return evaluator.Run(block_);
}

}  // namespace opst::text::jinja
