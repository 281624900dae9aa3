# Compiler flags of every target of this project: warnings, sanitizers, ccache. Not installed, not seen by consumers.
# SPDX-FileCopyrightText: ops-transformer authors
# SPDX-License-Identifier: Apache-2.0
#
# Defines the function opst_compile_options(target).

find_program(OPST_CCACHE ccache)
if(OPST_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${OPST_CCACHE}")
endif()

# Assertions stay on in RelWithDebInfo (presets dev, asan-ubsan, tsan); only Release drops them.
string(REPLACE "-DNDEBUG" "" CMAKE_CXX_FLAGS_RELWITHDEBINFO "${CMAKE_CXX_FLAGS_RELWITHDEBINFO}")
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")

set(opst_sanitize_none "")
set(opst_sanitize_asan-ubsan -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
set(opst_sanitize_tsan -fsanitize=thread -fno-omit-frame-pointer)
# Coverage for libFuzzer, which only clang has; tests/fuzz links its main.
set(opst_sanitize_fuzz -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
if(NOT DEFINED opst_sanitize_${OPST_SANITIZE})
  message(FATAL_ERROR "OPST_SANITIZE=${OPST_SANITIZE} is unknown; it is one of: none, asan-ubsan, tsan, fuzz")
endif()
set(OPST_SANITIZE_FLAGS ${opst_sanitize_${OPST_SANITIZE}})
if(NOT OPST_SANITIZE STREQUAL "none")
  # Instrumented code compiles in half the time at -O1, and a report needs no more than lines.
  set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O1 -g1")
endif()

function(opst_compile_options target)
  # No contraction: a * b + c is rounded twice unless the code says fma, on every instruction set and in every loop tail.
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wconversion -Wshadow -ffp-contract=off
    ${OPST_TARGET_FLAGS} ${OPST_SANITIZE_FLAGS})
  if(OPST_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
  target_link_options(${target} PUBLIC $<BUILD_INTERFACE:${OPST_SANITIZE_FLAGS}>)
endfunction()
