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
echo "(the prompt stands in brackets)"
for prompt in "It was a fine morning when" "\"My dear sister,\" said" "And the LORD said unto"; do
  text=$("$opst" generate "$packed" "$prompt" -n 60 --temperature 0.7 --top-p 0.9 --seed 1 --quiet)
  printf '[%s]%s\n' "$prompt" "${text#"$prompt"}"
  echo
done

step "which experts served which tokens"
"$opst" generate "$packed" "The two sisters walked" -n 16 --expert-usage

step "one MoE layer of OLMoE's shape, against a plain C++ loop"
"$opst" bench layer --shape olmoe-1b-7b --tokens 64 --weights bf16 --runs 5
echo "\"ratio\" = how many times faster than the plain loop, with the weights of one layer of OLMoE-1B-7B."

step "next"
echo "Your own checkpoint: $opst convert FOLDER model.opst --weights int4; then generate, chat or plan. README.md has the map."
