// Maps our names of instruction sets to Highway's target bits.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/isa.h"

#include <atomic>
#include <cstdint>
#include <mutex>

#include "base/check.h"
#include "hwy/highway.h"
#include "hwy/targets.h"

namespace opst {
namespace {

enum class IntegerDot : uint8_t { kPlain, kVnni };

struct Isa {
  std::string_view name;
  int64_t target;
  IntegerDot dot = IntegerDot::kPlain;
};

// Best first. VNNI is no target of its own: all tiles but the integer ones would be compiled twice
// for nothing.
constexpr Isa kIsas[] = {
#if HWY_ARCH_X86
    {"avx512_vnni", HWY_AVX3, IntegerDot::kVnni},
    {"avx512", HWY_AVX3},
    {"avx2", HWY_AVX2},
    {"sse2", HWY_SSE2},
#elif HWY_ARCH_ARM
    {"neon", HWY_NEON},
    {"neon", HWY_NEON_WITHOUT_AES},
#endif
};

bool MachineHasVnni() {
#if HWY_ARCH_X86
  __builtin_cpu_init();  // this runs before main
  return __builtin_cpu_supports("avx512vnni") != 0;
#else
  return false;
#endif
}

int64_t DetectedTargets() {
  hwy::DisableTargets(0);  // undoes a former SelectIsa, so that detection starts afresh
  return hwy::SupportedTargets() & HWY_TARGETS;
}

std::atomic<bool> uses_vnni{MachineHasVnni()};

const int64_t detected_targets = DetectedTargets();

bool IsAvailable(const Isa& isa) {
  return (detected_targets & isa.target) != 0 &&
         (isa.dot == IntegerDot::kPlain || MachineHasVnni());
}

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
    if (IsAvailable(isa)) names.emplace_back(isa.name);
  }
  return names;
}

std::string CurrentIsa() {
  const int64_t usable = hwy::SupportedTargets() & HWY_TARGETS;
  for (const Isa& isa : kIsas) {
    if ((usable & isa.target) != 0 && (isa.dot == IntegerDot::kPlain || UsesVnni())) {
      return std::string(isa.name);
    }
  }
  return "baseline";
}

bool UsesVnni() { return uses_vnni.load(std::memory_order_relaxed); }

void SelectIsa(std::string_view name) {
  const std::string wanted = Canonical(name);
  int64_t keep = 0;
  bool keeps_vnni = false;
  std::string available;
  for (const Isa& isa : kIsas) {
    if (!IsAvailable(isa)) continue;
    available += Concat(available.empty() ? "" : ", ", isa.name);
    if (wanted != "auto" && wanted != isa.name) continue;
    keep |= isa.target;
    if (isa.dot == IntegerDot::kVnni) keeps_vnni = true;
  }
  OPST_CHECK_ARG(keep != 0, "isa", Concat("the instruction set must be auto or one of ", available),
                 name);
  uses_vnni.store(keeps_vnni, std::memory_order_relaxed);
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
