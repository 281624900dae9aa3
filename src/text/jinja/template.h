// Template: a parsed Jinja template that can be rendered many times.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_TEXT_JINJA_TEMPLATE_H_
#define OPST_TEXT_JINJA_TEMPLATE_H_

#include <ctime>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/ast.h"

namespace opst::text::jinja {

using Variables = std::vector<std::pair<std::string, Value>>;

// The part of Jinja that chat templates use, in the environment that transformers gives them.
// Templates are not trusted: they reach nothing but their variables, and Limits bound them.
// Threads: rendering changes nothing; a template may be rendered by several threads.
class Template {
 public:
  // Throws kIo naming the line.
  explicit Template(std::string_view source, const Limits& limits = {});

  // Throws kIo when the template fails, refuses its input, or exceeds a limit. `now`: local time
  // for strftime_now.
  std::string Render(const Variables& variables, const std::tm& now) const;

 private:
  Limits limits_;
  Block block_;
};

}  // namespace opst::text::jinja

#endif  // OPST_TEXT_JINJA_TEMPLATE_H_
