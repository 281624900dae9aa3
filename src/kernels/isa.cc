// Maps our names of instruction sets to Highway's target bits.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/isa.h"

#include <cstdint>
#include <mutex>

#include "base/check.h"
#include "hwy/highway.h"
#include "hwy/targets.h"

namespace opst {
namespace {

struct Isa {
  std::string_view name;
  int64_t target;
};

// Best first.
constexpr Isa kIsas[] = {
#if HWY_ARCH_X86
    {"avx512", HWY_AVX3},
    {"avx2", HWY_AVX2},
    {"sse2", HWY_SSE2},
#elif HWY_ARCH_ARM
    {"neon", HWY_NEON},
    {"neon", HWY_NEON_WITHOUT_AES},
#endif
};

int64_t DetectedTargets() {
  hwy::DisableTargets(0);  // undoes a former SelectIsa, so that detection starts afresh
  return hwy::SupportedTargets() & HWY_TARGETS;
}

const int64_t detected_targets = DetectedTargets();

// Our name of a name that users may give.
std::string Canonical(std::string_view name) {
  if (name == "avx3") return "avx512";
  const std::vector<std::string> names = AvailableIsas();
  if (name == "baseline" && !names.empty()) return names.back();
  return std::string(name);
}

}  // namespace

std::vector<std::string> AvailableIsas() {
  std::vector<std::string> names;
  for (const Isa& isa : kIsas) {
    if ((detected_targets & isa.target) != 0) names.emplace_back(isa.name);
  }
  return names;
}

std::string CurrentIsa() {
  const int64_t usable = hwy::SupportedTargets() & HWY_TARGETS;
  for (const Isa& isa : kIsas) {
    if ((usable & isa.target) != 0) return std::string(isa.name);
  }
  return "baseline";
}

void SelectIsa(std::string_view name) {
  const std::string wanted = Canonical(name);
  int64_t keep = 0;
  std::string available;
  for (const Isa& isa : kIsas) {
    if ((detected_targets & isa.target) == 0) continue;
    available += Concat(available.empty() ? "" : ", ", isa.name);
    if (wanted == "auto" || wanted == isa.name) keep |= isa.target;
  }
  OPST_CHECK_ARG(keep != 0, "isa", Concat("the instruction set must be auto or one of ", available),
                 name);
  hwy::SetSupportedTargetsForTest(keep);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

void RequireIsa(std::string_view name) {
  static std::once_flag once;
  std::call_once(once, [&] { SelectIsa(name); });
  if (name == "auto") return;
  const std::string current = CurrentIsa();
  OPST_CHECK_ARG(Canonical(name) == current, "isa",
                 "all contexts of a process must ask for the same instruction set, or for auto",
                 name, " while ", current, " is in use");
}

}  // namespace opst
