# Names for what comes from outside, one interface target each; scripts/setup.sh is what puts it on the machine.
# SPDX-FileCopyrightText: ops-transformer authors
# SPDX-License-Identifier: Apache-2.0
#
# Link libraries of the static rooms (also needed by consumers of an installed copy): opst_hwy, opst_pcre2, opst_utf8proc.
# Header-only, seen by our sources alone: opst_highway (headers and target selection), opst_json, opst_cli11,
# opst_xxhash.

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
include("${CMAKE_CURRENT_LIST_DIR}/opst_link_libraries.cmake")

function(opst_header_only target header package)
  find_path(${target}_include ${header})
  if(NOT ${target}_include)
    message(FATAL_ERROR "<${header}> was not found; scripts/setup.sh installs ${package}")
  endif()
  add_library(${target} INTERFACE IMPORTED GLOBAL)
  target_include_directories(${target} INTERFACE "${${target}_include}")
  mark_as_advanced(${target}_include)
endfunction()

opst_header_only(opst_json nlohmann/json.hpp nlohmann-json3-dev)
opst_header_only(opst_cli11 CLI/CLI.hpp libcli11-dev)
opst_header_only(opst_xxhash xxhash.h libxxhash-dev)

# Highway: the system's when it is new enough, else the sources that scripts/setup.sh unpacked.
set(opst_highway_minimum 1.2.0)
set(opst_highway_sources "${PROJECT_SOURCE_DIR}/.deps/highway-${opst_highway_minimum}")
find_package(hwy ${opst_highway_minimum} QUIET)
add_library(opst_highway INTERFACE IMPORTED GLOBAL)
target_compile_definitions(opst_highway INTERFACE ${OPST_TARGET_DEFINITIONS})
if(hwy_FOUND)
  message(STATUS "Highway: ${hwy_VERSION} of the system")
  set(OPST_HWY_IS_OURS FALSE)
  opst_find_library(opst_hwy hwy hwy/highway.h libhwy-dev)
  target_link_libraries(opst_highway INTERFACE opst_hwy)
elseif(EXISTS "${opst_highway_sources}/hwy/highway.h")
  message(STATUS "Highway: ${opst_highway_minimum} from .deps/")
  set(OPST_HWY_IS_OURS TRUE)
  target_include_directories(opst_highway INTERFACE "${opst_highway_sources}")
  add_library(opst_hwy STATIC)
  foreach(file IN ITEMS abort aligned_allocator per_target targets)
    target_sources(opst_hwy PRIVATE "${opst_highway_sources}/hwy/${file}.cc")
  endforeach()
  target_link_libraries(opst_hwy PRIVATE $<BUILD_INTERFACE:opst_highway>)
  target_compile_options(opst_hwy PRIVATE ${OPST_TARGET_FLAGS} ${OPST_SANITIZE_FLAGS})
  set_target_properties(opst_hwy PROPERTIES EXPORT_NAME hwy POSITION_INDEPENDENT_CODE ON)
else()
  message(FATAL_ERROR "Highway ${opst_highway_minimum} or newer was not found; scripts/setup.sh brings it")
endif()
