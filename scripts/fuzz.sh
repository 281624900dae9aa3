#!/usr/bin/env bash
# Builds the libFuzzer targets of tests/fuzz and runs each for some seconds; a crash fails and leaves its input.
# SPDX-FileCopyrightText: ops-transformer authors
# SPDX-License-Identifier: Apache-2.0
#
#   scripts/fuzz.sh [SECONDS] [TARGET...]     10 seconds, all targets: safetensors packed gguf tokenizer config template
#
# FUZZ_SEED=1 repeats the same mutations, as CI does; without it every run tries others.
#
# Needs clang with its sanitizer runtime (scripts/setup.sh --fuzz). New inputs are kept in build/fuzz/found/TARGET; a
# crashing one is written to build/fuzz/crashes. Copy what is worth keeping into tests/fuzz/corpus/TARGET.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

seconds=${1:-10}
shift || true
targets=("$@")
[ ${#targets[@]} != 0 ] || targets=(safetensors packed gguf tokenizer config template)

cmake --preset fuzz --log-level=WARNING
cmake --build --preset fuzz --parallel "$(nproc)" -- --quiet
mkdir -p build/fuzz/crashes
# clang 14's runtime aborts now and then where the kernel randomises addresses more than it expects.
fixed_addresses=(setarch "$(uname -m)" --addr-no-randomize)
"${fixed_addresses[@]}" true 2>/dev/null || fixed_addresses=()
for target in "${targets[@]}"; do
  mkdir -p "build/fuzz/found/$target"
  echo "fuzz: $target, $seconds s"
  # Memory and time of one input are bounded: a file must not cost more than a small multiple of its size.
  # Inputs that take longer than a second are written to build/fuzz/crashes too, but are no failure on a busy machine.
  ${fixed_addresses[@]+"${fixed_addresses[@]}"} "build/fuzz/tests/fuzz/opst_fuzz_$target" -max_total_time="$seconds" \
    -seed="${FUZZ_SEED:-0}" -timeout=10 -report_slow_units=1 -rss_limit_mb=1024 -malloc_limit_mb=256 -max_len=65536 \
    -print_final_stats=0 -verbosity=0 -artifact_prefix="build/fuzz/crashes/$target-" \
    "build/fuzz/found/$target" "tests/fuzz/corpus/$target"
done
echo "fuzz: no target crashed"
