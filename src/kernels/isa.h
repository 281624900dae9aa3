// Which instruction set the kernels use: detection, listing and forcing; no kernel is here.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_KERNELS_ISA_H_
#define OPST_KERNELS_ISA_H_

#include <string>
#include <string_view>
#include <vector>

namespace opst {

// Names of the instruction sets that this build has and this machine runs, best first:
// "avx512_vnni", "avx512", "avx2", "sse2" on x86-64, "neon" on aarch64.
std::vector<std::string> AvailableIsas();

// The one that kernels use from now on.
std::string CurrentIsa();

// Whether integer tiles may use the dot products of AVX-512 VNNI.
bool UsesVnni();

// Forces one of AvailableIsas(), or "auto" for the best; "baseline" is the last of them and "avx3"
// another name of avx512. Holds for the whole process, because the function tables do;
// kInvalidArgument names what exists.
void SelectIsa(std::string_view name);

// SelectIsa for the first caller of the process. Later callers get what is in force: "auto" takes
// it, any other name must be it (kInvalidArgument). Operators call this with the setting `isa` of
// their context before they touch a function table.
void RequireIsa(std::string_view name);

}  // namespace opst

#endif  // OPST_KERNELS_ISA_H_
