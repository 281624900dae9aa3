# Runs Python test files with pytest under ctest, in the project's .venv when scripts/setup.sh --tests made it.
# SPDX-FileCopyrightText: ops-transformer authors
# SPDX-License-Identifier: Apache-2.0
#
#   opst_add_pytest(<name> <folder or file> [LABELS <label>] [ENVIRONMENT <NAME=value>...] [ARGS <pytest arguments>...])
#
# The tests find the built tool in the environment variable OPST_TOOL.

if(EXISTS "${PROJECT_SOURCE_DIR}/.venv/bin/python")
  set(OPST_PYTHON "${PROJECT_SOURCE_DIR}/.venv/bin/python")
else()
  find_program(OPST_PYTHON python3)
endif()

function(opst_add_pytest name path)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "LABELS" "ENVIRONMENT;ARGS")
  add_test(NAME "${name}" COMMAND "${OPST_PYTHON}" -m pytest -q -p no:cacheprovider ${arg_ARGS} "${path}"
    WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}")
  if(NOT arg_LABELS)
    set(arg_LABELS python)
  endif()
  set(environment "PYTHONDONTWRITEBYTECODE=1" ${arg_ENVIRONMENT})
  if(TARGET opst_tool)
    list(APPEND environment "OPST_TOOL=$<TARGET_FILE:opst_tool>")
  endif()
  set_tests_properties("${name}" PROPERTIES LABELS "${arg_LABELS}" TIMEOUT 900 ENVIRONMENT "${environment}")
endfunction()
