# Script of the test install.consumer: install, configure, build, run; also that a wrong version is refused.
# SPDX-FileCopyrightText: ops-transformer authors
# SPDX-License-Identifier: Apache-2.0
cmake_minimum_required(VERSION 3.25)

function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${ARGV}\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE "${WORK_DIR}")
set(prefix "${WORK_DIR}/prefix")
run("${CMAKE_COMMAND}" --install "${BUILD_DIR}" --prefix "${prefix}" --config "${CONFIG}")

string(REPLACE ";" " " flags "${FLAGS}")
set(common -G "${GENERATOR}" "-DCMAKE_BUILD_TYPE=${CONFIG}" "-DCMAKE_PREFIX_PATH=${prefix}")
set(configure "${CMAKE_COMMAND}" -S "${CMAKE_CURRENT_LIST_DIR}/consumer" ${common}
  "-DCMAKE_CXX_COMPILER=${COMPILER}" "-DCMAKE_CXX_FLAGS=${flags}")
run(${configure} -B "${WORK_DIR}/build")
run("${CMAKE_COMMAND}" --build "${WORK_DIR}/build")
run("${WORK_DIR}/build/consumer")
message(STATUS "consumer printed: ${output}")
run("${WORK_DIR}/build/cann_consumer")

# The same program without CMake: one include folder, one library.
separate_arguments(flag_list UNIX_COMMAND "${flags}")
run("${COMPILER}" ${flag_list} "${CMAKE_CURRENT_LIST_DIR}/consumer/cann_main.cc" "-I${prefix}/cann/include"
  "-L${prefix}/${LIBDIR}" -lopst_cann "-Wl,-rpath,${prefix}/${LIBDIR}" -o "${WORK_DIR}/plain_consumer")
run("${WORK_DIR}/plain_consumer")

# A project that knows no C++ links the shared library alone.
run("${CMAKE_COMMAND}" -S "${CMAKE_CURRENT_LIST_DIR}/consumer_c" ${common} -B "${WORK_DIR}/build_c"
  "-DCMAKE_C_COMPILER=${C_COMPILER}" "-DCMAKE_C_FLAGS=${flags}")
run("${CMAKE_COMMAND}" --build "${WORK_DIR}/build_c")
run("${WORK_DIR}/build_c/consumer_c")
message(STATUS "consumer_c printed: ${output}")

# The installed headers stand alone: nothing of the source tree or of another library is named in them.
file(GLOB_RECURSE headers "${prefix}/include/*.h" "${prefix}/cann/include/*.h")
foreach(header IN LISTS headers)
  file(STRINGS "${header}" foreign REGEX "#[ ]*include[ ]*[<\"](hwy|nlohmann|CLI|pcre2|utf8proc|base|io|kernels|cann)[/.]")
  if(foreign)
    message(FATAL_ERROR "${header}: ${foreign}")
  endif()
endforeach()

execute_process(COMMAND ${configure} -B "${WORK_DIR}/refused" -DOPST_WANTED=99.0 RESULT_VARIABLE result
  OUTPUT_QUIET ERROR_QUIET)
if(result EQUAL 0)
  message(FATAL_ERROR "find_package(opst 99.0) was satisfied by this version")
endif()
