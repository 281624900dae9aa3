#!/usr/bin/env bash
# The demonstration behind `make demo`: converts the bundled model and lets it talk. Expects the tool to be built.
# SPDX-FileCopyrightText: ops-transformer authors
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

opst=${OPST_TOOL:-build/release/tools/opst/opst}
model=models/austen-moe
packed=build/austen-moe.opst

step() { printf '\n== %s\n' "$*"; }

step "convert a Hugging Face folder into one packed file"
"$opst" convert "$model" "$packed" --force

step "generate"
for prompt in "It was a fine morning when" "\"My dear sister,\" said" "In the beginning"; do
  "$opst" generate "$packed" --prompt "$prompt" --max-tokens 60 --seed 1
  echo
done

step "which experts served which tokens"
"$opst" generate "$packed" --prompt "The two sisters walked" --max-tokens 40 --seed 1 --expert-usage

step "one MoE layer, against the plain loop"
"$opst" bench layer
