# The front door: short names for setup, CMake presets, tests and formatting. It knows no source file and no flag.
# SPDX-FileCopyrightText: ops-transformer authors
# SPDX-License-Identifier: Apache-2.0
#
# Variables: TARGET=auto|native|<instruction set>   PRESET=release|dev|asan-ubsan|tsan   JOBS=<parallel jobs>   WERROR=ON|OFF
TARGET ?= auto
PRESET ?= release
JOBS ?= $(shell nproc)
WERROR ?= OFF

# `make TARGET=avx2` builds; `make` alone shows the help.
.DEFAULT_GOAL := $(if $(filter command line environment,$(origin TARGET)),build,help)

.PHONY: help setup build demo test bench format format-check check clean

help:
	@echo "make demo           install what is missing, build, convert the bundled model, generate text"
	@echo "make test           install what the tests need, build, run every test"
	@echo "make build          build everything (PRESET=release|dev|asan-ubsan|tsan)"
	@echo "make bench          layer and routing benchmarks of this machine"
	@echo "make format         format the sources; make format-check only looks"
	@echo "make check          layers, file lengths, first lines, documentation links"
	@echo "make clean          delete the builds"
	@echo "make TARGET=avx2    build for one instruction set; auto (default) chooses when the program runs, native is this CPU"

setup:
	@scripts/setup.sh

configure = cmake --preset $(PRESET) -DOPST_TARGET=$(TARGET) -DOPST_WERROR=$(WERROR) --log-level=WARNING
compile = cmake --build --preset $(PRESET) --parallel $(JOBS)

build: setup
	@$(configure)
	$(compile)

demo: PRESET = release
demo: setup
	@$(configure)
	$(compile) --target opst_tool
	@scripts/demo.sh

test:
	@scripts/setup.sh --tests
	@$(configure)
	$(compile)
	ctest --preset $(PRESET) --parallel $(JOBS)

bench: PRESET = release
bench: setup
	@$(configure)
	$(compile) --target opst_tool
	build/release/tools/opst/opst bench layer
	build/release/tools/opst/opst bench routing

format:
	@scripts/format.sh

format-check:
	@scripts/format.sh --check

check:
	@scripts/check_all.sh

clean:
	rm -rf build
