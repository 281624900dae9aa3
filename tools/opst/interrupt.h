// Ctrl-C that ends a text cleanly: what was written stays, files are closed.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_TOOLS_OPST_INTERRUPT_H_
#define OPST_TOOLS_OPST_INTERRUPT_H_

namespace opst::tool {

// While it lives, the first SIGINT only sets a flag; a second one ends the process at once.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  bool requested() const;
  // Forgets a request, and catches the next SIGINT again.
  void Reset();
  // After a request: ends the process by SIGINT, as a shell expects of an interrupted program.
  void EndIfRequested() const;
};

}  // namespace opst::tool

#endif  // OPST_TOOLS_OPST_INTERRUPT_H_
