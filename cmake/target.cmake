# Turns OPST_TARGET into compiler flags and Highway's list of disabled targets. Knows nothing of rooms.
# SPDX-FileCopyrightText: ops-transformer authors
# SPDX-License-Identifier: Apache-2.0
#
# Sets OPST_TARGET_FLAGS (for the whole build) and OPST_TARGET_DEFINITIONS (for files that include Highway).

# The table of what exists, one row per architecture: names, then for each name its compiler flags.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
  set(opst_architecture "x86-64")
  set(opst_target_names sse2 avx2 avx512)
  set(opst_flags_sse2 -march=x86-64)
  # AES and PCLMUL are no part of the x86-64 levels, but Highway expects them of these targets (every CPU has them).
  set(opst_flags_avx2 -march=x86-64-v3 -maes -mpclmul)
  set(opst_flags_avx512 -march=x86-64-v4 -maes -mpclmul)
  # Compiled for `auto`: SSE2, AVX2 and AVX-512 (Skylake level). Each further target costs about 2.4 s per SIMD file.
  # Better targets have lower bits in Highway, so "better than X" is (X - 1).
  set(opst_disabled_targets "((HWY_AVX3-1)|HWY_SSE4|HWY_SSSE3)")
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
  set(opst_architecture "aarch64")
  set(opst_target_names neon)
  set(opst_flags_neon -march=armv8-a)
  set(opst_disabled_targets "(HWY_NEON_WITHOUT_AES-1)")
else()
  message(FATAL_ERROR "ops-transformer builds for x86-64 and aarch64; this compiler targets ${CMAKE_SYSTEM_PROCESSOR}")
endif()

# The names that the setting `isa` knows besides these.
set(opst_target "${OPST_TARGET}")
if(opst_target STREQUAL "avx3")
  set(opst_target avx512)
elseif(opst_target STREQUAL "baseline")
  list(GET opst_target_names 0 opst_target)
endif()

set(OPST_TARGET_FLAGS "")
set(OPST_TARGET_DEFINITIONS "HWY_DISABLED_TARGETS=${opst_disabled_targets}")
if(OPST_TARGET STREQUAL "native")
  set(OPST_TARGET_FLAGS -march=native)
elseif(opst_target IN_LIST opst_target_names)
  set(OPST_TARGET_FLAGS ${opst_flags_${opst_target}})
elseif(NOT OPST_TARGET STREQUAL "auto")
  list(JOIN opst_target_names ", " opst_names)
  message(FATAL_ERROR
    "TARGET=${OPST_TARGET} cannot be built here. This compiler builds for ${opst_architecture}, where TARGET is one of: "
    "auto (default: the kernels are chosen at run time), native (this machine's CPU), baseline (the first of these), ${opst_names}. "
    "There are no kernels for NPUs or GPUs.")
endif()

if(NOT OPST_TARGET STREQUAL "auto")
  include(CheckCXXCompilerFlag)
  list(JOIN OPST_TARGET_FLAGS " " opst_flags)
  string(MAKE_C_IDENTIFIER "OPST_COMPILER_ACCEPTS_${OPST_TARGET}" opst_accepts)
  check_cxx_compiler_flag("${opst_flags}" ${opst_accepts})
  if(NOT ${opst_accepts})
    message(FATAL_ERROR "TARGET=${OPST_TARGET} needs a compiler that accepts ${opst_flags}; ${CMAKE_CXX_COMPILER} does not")
  endif()
  # One instruction set: no dispatch, the best one that the flags allow.
  list(APPEND OPST_TARGET_DEFINITIONS HWY_COMPILE_ONLY_STATIC)
endif()
message(STATUS "Kernels: OPST_TARGET=${OPST_TARGET} on ${opst_architecture}")
