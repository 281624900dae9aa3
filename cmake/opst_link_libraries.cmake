# Finds the system libraries that opst's static libraries must be linked with. Used by the build and by find_package(opst).
# SPDX-FileCopyrightText: ops-transformer authors
# SPDX-License-Identifier: Apache-2.0

# opst_find_library(target library header package): an imported target, or an error naming the Debian package.
function(opst_find_library target library header package)
  if(TARGET ${target})
    return()
  endif()
  find_library(${target}_library ${library})
  find_path(${target}_include ${header})
  mark_as_advanced(${target}_library ${target}_include)
  if(NOT ${target}_library)
    message(FATAL_ERROR "The library ${library} was not found; on Debian the package is ${package}")
  endif()
  add_library(${target} INTERFACE IMPORTED GLOBAL)
  target_link_libraries(${target} INTERFACE "${${target}_library}")
  if(${target}_include)  # a consumer of the installed package does not need the headers
    target_include_directories(${target} INTERFACE "${${target}_include}")
  endif()
endfunction()

opst_find_library(opst_pcre2 pcre2-8 pcre2.h libpcre2-dev)
opst_find_library(opst_utf8proc utf8proc utf8proc.h libutf8proc-dev)
