// A one-shot signal handler around a flag.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "interrupt.h"

#include <csignal>
#include <cstdio>

namespace opst::tool {
namespace {

// Process-wide by nature: a handler has no other state.
volatile std::sig_atomic_t is_requested = 0;

void OnSignal(int) { is_requested = 1; }

void Install() {
  is_requested = 0;
  struct sigaction action = {};
  action.sa_handler = OnSignal;
  // No SA_RESTART: a read from the terminal ends, too.
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
}

}  // namespace

Interrupt::Interrupt() { Install(); }
Interrupt::~Interrupt() { std::signal(SIGINT, SIG_DFL); }

bool Interrupt::requested() const { return is_requested != 0; }

void Interrupt::Reset() { Install(); }

void Interrupt::EndIfRequested() const {
  if (!requested()) return;
  std::fflush(nullptr);
  std::signal(SIGINT, SIG_DFL);
  std::raise(SIGINT);
}

}  // namespace opst::tool
