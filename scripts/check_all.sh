#!/usr/bin/env bash
# Runs every check of structure and text (not the tests, not the compiler) and fails when one of them does.
# SPDX-FileCopyrightText: ops-transformer authors
# SPDX-License-Identifier: Apache-2.0
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

python=.venv/bin/python
[ -x "$python" ] || python=python3
failed=0
for check in check_layers check_file_length check_headers check_abi check_docs; do
  PYTHONDONTWRITEBYTECODE=1 "$python" "scripts/$check.py" || failed=1
done
scripts/format.sh --check || failed=1
exit "$failed"
