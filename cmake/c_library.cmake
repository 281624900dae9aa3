# The shared library of the C API and the C programs that test it. Rooms are rooms.cmake.
# SPDX-FileCopyrightText: ops-transformer authors
# SPDX-License-Identifier: Apache-2.0
#
#   opst_add_c_library(<version script>)   the target opst_c: libopst.so, installed as opst::c
#   opst_add_c_test(<name> [LABELS <labels>...] [ARGS <arguments>...])   <name>.c as the test capi.<name>

function(opst_add_c_library version_script)
  set(script "${CMAKE_CURRENT_SOURCE_DIR}/${version_script}")
  add_library(opst_c SHARED $<TARGET_OBJECTS:opst_capi>)
  add_library(opst::c ALIAS opst_c)
  set_target_properties(opst_c PROPERTIES EXPORT_NAME c OUTPUT_NAME opst LINKER_LANGUAGE CXX
    VERSION "${PROJECT_VERSION}" SOVERSION "${PROJECT_VERSION_MAJOR}" LINK_DEPENDS "${script}")
  target_include_directories(opst_c
    INTERFACE "$<BUILD_INTERFACE:${OPST_SOURCE_ROOT}/include>" "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
  opst_compile_options(opst_c)
  target_link_libraries(opst_c PRIVATE $<BUILD_INTERFACE:opst_runtime>)
  target_link_options(opst_c PRIVATE "LINKER:--version-script=${script}")
  install(TARGETS opst_c EXPORT opst_targets LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
endfunction()

function(opst_add_c_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "LABELS;ARGS")
  set(target opst_capi_${name})
  add_executable(${target} ${name}.c)
  set_target_properties(${target} PROPERTIES OUTPUT_NAME ${name} C_STANDARD 11 C_STANDARD_REQUIRED ON C_EXTENSIONS OFF)
  opst_compile_options(${target})
  target_compile_options(${target} PRIVATE -pedantic -Wpadded -Werror)
  target_link_libraries(${target} PRIVATE opst::c Threads::Threads m)
  string(JOIN "-" labels unit ${arg_LABELS})
  add_test(NAME capi.${name} COMMAND ${target} ${arg_ARGS})
  set_tests_properties(capi.${name} PROPERTIES LABELS "${labels}" TIMEOUT 300)
  add_dependencies(unit_tests ${target})
  if("threads" IN_LIST arg_LABELS)
    add_dependencies(threads_tests ${target})
  endif()
endfunction()
