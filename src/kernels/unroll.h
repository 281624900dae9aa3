// OPST_UNROLL: full unrolling of the small constant loops over registers, for GCC and Clang.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_KERNELS_UNROLL_H_
#define OPST_KERNELS_UNROLL_H_

// Without it GCC keeps arrays of vectors in memory at -O2: the tile then runs at a third of the
// speed, since every accumulator is stored and loaded again.
#if defined(__clang__)
#define OPST_UNROLL _Pragma("clang loop unroll(full)")
#else
#define OPST_UNROLL _Pragma("GCC unroll 32")
#endif

#endif  // OPST_KERNELS_UNROLL_H_
