#!/usr/bin/env bash
# Formats C++ (clang-format) and Python (ruff) sources in place; with --check it only reports what differs.
# SPDX-FileCopyrightText: ops-transformer authors
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# The versions pinned in scripts/requirements.txt: others break lines differently.
for tool in .venv/bin/clang-format .venv/bin/ruff; do
  [ -x "$tool" ] >/dev/null || {
    echo "format: $tool is missing; scripts/setup.sh --tests installs it" >&2
    exit 1
  }
done

sources() { git ls-files -z --cached --others --exclude-standard -- "$@" | xargs -0 -r ls -d 2>/dev/null || true; }
mapfile -t cxx < <(sources '*.cc' '*.h' '*.c')
mapfile -t python < <(sources '*.py')

if [ "${1:-}" = --check ]; then
  failed=0
  for file in "${cxx[@]}"; do
    if ! .venv/bin/clang-format --dry-run --Werror "$file" 2>/dev/null; then
      echo "format: $file is not formatted (make format)"
      failed=1
    fi
  done
  if [ ${#python[@]} != 0 ]; then
    .venv/bin/ruff format --check "${python[@]}" | sed -n 's/^Would reformat: \(.*\)/format: \1 is not formatted (make format)/p'
    .venv/bin/ruff format --quiet --check "${python[@]}" || failed=1
    .venv/bin/ruff check --quiet "${python[@]}" || failed=1
  fi
  [ "$failed" = 1 ] || echo "format: ${#cxx[@]} C++ and ${#python[@]} Python files are formatted"
  exit "$failed"
else
  [ ${#cxx[@]} = 0 ] || .venv/bin/clang-format -i "${cxx[@]}"
  [ ${#python[@]} = 0 ] || .venv/bin/ruff format --quiet "${python[@]}"
fi
