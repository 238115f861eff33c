# One command each. `make help` lists them; CMakePresets.json holds the build types.

PYTHON ?= python3
JOBS ?= $(shell nproc)
PYTEST_ARGS ?=
ARGS ?=
JSON ?=
BASE ?=
SVG ?=
CTEST_ARGS ?=

SYSTEM_PACKAGES := g++ clang-19 lld-19 clang-format-19 clang-tidy-19 libclang-rt-19-dev llvm-19-dev liblld-19-dev \
                   cmake ninja-build ccache libfmt-dev libcli11-dev libgtest-dev libgmock-dev libsimdjson-dev libflatbuffers-dev \
                   flatbuffers-compiler pkg-config xz-utils zlib1g-dev libzstd-dev
PYTHON_PACKAGES := python3 python3-dev python3-venv
PYTHON_IS_USABLE := import ensurepip, os, sysconfig; \
                    assert os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h"))
PYTHON_IS_NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))

VENV_STAMP := .venv/.installed
BENCH_STAMP := .venv-bench/.installed
SOURCE_DIRS := $(wildcard include src runtime accelerators tools python tests bench examples js)
CPP_FILES = $(shell find $(SOURCE_DIRS) -name '*.h' -o -name '*.hpp' -o -name '*.cpp')
TIDY_FILES = $(shell find src runtime tools -name '*.cpp')

WHEEL_PYTHONS ?=

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

# ---- what the machine and Python need -------------------------------------------------------------------------------

.PHONY: deps
deps: ## Install the system packages that are missing (Debian 12; root or sudo)
	@command -v apt-get >/dev/null || { \
	  echo "deps: this is not a Debian system; install the equivalents of: $(SYSTEM_PACKAGES)"; exit 0; }; \
	missing=; \
	for package in $(SYSTEM_PACKAGES); do \
	  [ "$$(dpkg-query -W -f '$${db:Status-Status}' $$package 2>/dev/null)" = installed ] || missing+=" $$package"; \
	done; \
	$(PYTHON) -c '$(PYTHON_IS_USABLE)' 2>/dev/null || missing+=" $(PYTHON_PACKAGES)"; \
	[ -n "$$missing" ] || exit 0; \
	sudo=; \
	if [ "$$(id -u)" != 0 ]; then \
	  command -v sudo >/dev/null || { echo "deps: not root and no sudo; install:$$missing" >&2; exit 1; }; \
	  sudo=sudo; \
	fi; \
	echo "deps: installing$$missing"; \
	$$sudo apt-get -qq update; \
	$$sudo env DEBIAN_FRONTEND=noninteractive \
	  apt-get -qq install -y --no-install-recommends -o DPkg::Lock::Timeout=300 $$missing

.PHONY: browser
browser: | deps ## Install a browser if there is none, for the tests that look at reports; they skip without one
	@command -v chromium >/dev/null || ! command -v apt-get >/dev/null || { \
	  sudo=$$([ "$$(id -u)" = 0 ] || echo sudo); echo "browser: installing chromium"; \
	  $$sudo env DEBIAN_FRONTEND=noninteractive timeout 180 \
	    apt-get -qq install -y --no-install-recommends -o DPkg::Lock::Timeout=60 chromium >/dev/null; } || \
	  echo "browser: chromium could not be installed; tests that need it skip"

.PHONY: venv
venv: $(VENV_STAMP) ## Create .venv with the pinned Python packages

$(VENV_STAMP): python/requirements-dev.txt python/requirements-pt2e.txt | deps
	@$(PYTHON) -c '$(PYTHON_IS_NEW_ENOUGH)' || { \
	  echo "venv: Tenon needs Python 3.11 or newer, found $$($(PYTHON) --version); say make PYTHON=python3.11" >&2; exit 1; }
	@echo "venv: installing python/requirements-dev.txt into .venv"
	@$(PYTHON) -m venv .venv
	@.venv/bin/python -m pip install --quiet --disable-pip-version-check --requirement $<
	@.venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --upgrade --target .venv/pt2e \
	  --requirement python/requirements-pt2e.txt
	@echo "$(CURDIR)/build/python" > "$$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/tenon-dev.pth"
	@touch $@

# ---- build and run --------------------------------------------------------------------------------------------------

.PHONY: build
build: $(VENV_STAMP) | deps ## Build the library, the command line, the Python module and the tests (release)
	@cmake --preset release --log-level=WARNING >/dev/null
	@cmake --build --preset release --parallel $(JOBS)
	@ln -sfn ../../build/bin/tenon .venv/bin/tenon

.PHONY: verilator
verilator: | deps
	@command -v verilator >/dev/null || { \
	  sudo=$$([ "$$(id -u)" = 0 ] || echo sudo); echo "rtl: installing verilator"; \
	  $$sudo env DEBIAN_FRONTEND=noninteractive \
	    apt-get -qq install -y --no-install-recommends -o DPkg::Lock::Timeout=300 verilator >/dev/null; }

WEB_PACKAGES := clang-19 lld-19 wasi-libc libc++-19-dev-wasm32 libc++abi-19-dev-wasm32 libclang-rt-19-dev-wasm32

.PHONY: web-library
web-library: | deps ## Install the C++ library for wasm32 if it is missing, for a test that builds with it; it skips without
	@! command -v dpkg-query >/dev/null || dpkg-query -W $(WEB_PACKAGES) >/dev/null 2>&1 || { \
	  sudo=$$([ "$$(id -u)" = 0 ] || echo sudo); echo "web: installing $(WEB_PACKAGES)"; \
	  $$sudo env DEBIAN_FRONTEND=noninteractive timeout 180 \
	    apt-get -qq install -y --no-install-recommends -o DPkg::Lock::Timeout=60 $(WEB_PACKAGES) >/dev/null; } || \
	  echo "web: the C++ library for wasm32 could not be installed; nothing can be built for WebAssembly"

.PHONY: web
web: web-library ## Install the C++ library for wasm32 if it is missing, and build the runtime for JavaScript into build/web
	@cmake -S js -B build/web -G Ninja --log-level=WARNING >/dev/null
	@cmake --build build/web --parallel $(JOBS)

.PHONY: web-models
web-models: build web ## Build the pages with their models (a minute of training) into build/web/site, for any file server
	@.venv/bin/python -W ignore web/make_models.py build/web/site/models

ARM64_PACKAGES := clang-19 lld-19 libc6-dev-arm64-cross libstdc++-12-dev-arm64-cross qemu-user

.PHONY: arm64
arm64: | deps ## Install what runs AArch64 programs if it is missing, and build the runtime and its tests for AArch64 into build/arm64
	@dpkg-query -W $(ARM64_PACKAGES) >/dev/null 2>&1 || { \
	  sudo=$$([ "$$(id -u)" = 0 ] || echo sudo); echo "arm64: installing $(ARM64_PACKAGES)"; \
	  $$sudo env DEBIAN_FRONTEND=noninteractive \
	    apt-get -qq install -y --no-install-recommends -o DPkg::Lock::Timeout=300 $(ARM64_PACKAGES) >/dev/null; }
	@cmake --preset arm64 --log-level=WARNING >/dev/null
	@cmake --build --preset arm64 --parallel $(JOBS)

.PHONY: rtl
rtl: verilator build ## Install verilator if it is missing, build Atalla and its plug-in with the RTL, test both; ARGS="rtl" measures one body
	@build/bin/atalla_tests --gtest_filter='*Rtl*' --gtest_brief=1
	@.venv/bin/python -m pytest -q tests/python/test_atalla_rtl.py tests/cli/test_cli_device_debug.py
	@build/bin/atalla_layers $(or $(ARGS),cycles rtl)

.PHONY: area
area: | deps ## Install yosys if it is missing, which counts the cells of Atalla for `tenon device sweep`
	@command -v yosys >/dev/null || { \
	  sudo=$$([ "$$(id -u)" = 0 ] || echo sudo); echo "area: installing yosys"; \
	  $$sudo env DEBIAN_FRONTEND=noninteractive \
	    apt-get -qq install -y --no-install-recommends -o DPkg::Lock::Timeout=300 yosys >/dev/null; }
	@accelerators/atalla/area.py --count

.PHONY: rtl-bugs
rtl-bugs: verilator build ## Whether `tenon device diff` finds each of thirty mistakes in Atalla's RTL, and names the command; ARGS="3 17" selects
	@.venv/bin/python accelerators/atalla/tests/rtl_bugs.py $(ARGS)

.PHONY: debug
debug: $(VENV_STAMP) | deps ## Build without optimisation, with full debug information, into build-debug
	@cmake --preset debug --log-level=WARNING >/dev/null
	@cmake --build --preset debug --parallel $(JOBS)

.PHONY: demo
demo: build ## Build, then run the main job on an example
	@.venv/bin/python -m tenon demo

.PHONY: wheel
wheel: | deps ## Make self-contained wheels in dist/ of the Pythons there are; WHEEL_PYTHONS="python3.11 python3.12" selects
	@CC=clang-19 CXX=clang++-19 CMAKE_BUILD_PARALLEL_LEVEL=$(JOBS) $(PYTHON) tools/wheel/make_wheels.py $(WHEEL_PYTHONS)

.PHONY: dist
dist: build ## Make a tarball in dist/ of the runtime that C programs link statically
	@tools/dist.sh build dist

.PHONY: docs
docs: build ## Regenerate docs/ops.md and runtime/scalar_ops.inc from the op table
	@build/bin/tenon ops --markdown > build/ops.md
	@cp build/ops.md docs/ops.md
	@build/bin/tenon ops --scalar-table > build/scalar_ops.inc
	@cp build/scalar_ops.inc runtime/scalar_ops.inc

# ---- tests ----------------------------------------------------------------------------------------------------------

RUN_CTEST = ctest --preset release --parallel $(JOBS) $(CTEST_ARGS)
RUN_PYTEST = .venv/bin/python -m pytest -n $(JOBS) --dist loadfile $(PYTEST_ARGS)

# Tests under qemu run what `make arm64` built once; a runtime that no longer compiles there fails here.
.PHONY: arm64-again
arm64-again: build
	@[ ! -e build/arm64/build.ninja ] || cmake --build --preset arm64 --parallel $(JOBS)

.PHONY: test
test: build browser web-library arm64-again ## Build, then run every test: ctest, then pytest; fails if either does
	@failed=0; $(RUN_CTEST) || failed=1; $(RUN_PYTEST) || failed=1; exit $$failed

.PHONY: test-cpp
test-cpp: build ## Only the C++ tests; CTEST_ARGS="-R graph/" selects
	@$(RUN_CTEST)

.PHONY: test-python
test-python: build ## Only the Python tests; PYTEST_ARGS="-k graph" selects
	@$(RUN_PYTEST)

.PHONY: test-wheel
test-wheel: wheel ## Install the wheels of `make wheel` into empty environments outside of the tree, and use them there
	@.venv/bin/python -m pytest tests/wheel $(PYTEST_ARGS)

.PHONY: versions
versions: build ## Try each PyTorch from 2.9 on that pip finds (gigabytes), and write the table of docs/install.md; ARGS="2.11 --keep"
	@.venv/bin/python tools/versions/versions.py $(ARGS)

.PHONY: test-web
test-web: web-models browser ## Build the runtime for JavaScript and the pages, and test them in Node and in a browser
	@cmake --build build/web --target kernels-test --parallel $(JOBS)
	@.venv/bin/python -m pytest -q tests/python/test_web*.py $(PYTEST_ARGS)

ARM64_TESTS := *OnArm64*:*NativeOps.*/aarch64:*NativeOps.*/neoverse*:*NativeOps.*/sve*:*LoaderOf.*:Relocations.*
SVE_TESTS := ContractionSchedule.Agrees*:AttentionSchedule.Agrees*:-AttentionSchedule.*Lengths*

.PHONY: test-arm
test-arm: build arm64 ## Test code for AArch64 under qemu: ops, random kernels (PAIRS=1000 for each CPU), schedules, models, files
	@TENON_ARM64_PAIRS=$(or $(PAIRS),1000) build/bin/tenon_tests --gtest_brief=1 --gtest_filter='$(ARM64_TESTS)'
	@ctest --preset release --parallel $(JOBS) -R 'schedules for (aarch64|neoverse)' $(CTEST_ARGS)
	@TENON_CPU=neoverse-v1+sve256 build/bin/tenon_tests --gtest_brief=1 --gtest_filter='$(SVE_TESTS)'
	@.venv/bin/python -m pytest -q tests/python/test_arm64.py $(PYTEST_ARGS)

.PHONY: lazy-ops
lazy-ops: build ## Compare PyTorch's samples of the operators that its lazy device records, on that device; ARGS="--only conv" selects
	@PYTHONPATH=build/python .venv/bin/python -m tests.python.opinfo.lazy --jobs $(JOBS) $(ARGS)

.PHONY: opinfo
opinfo: build ## Compare PyTorch's own samples of all its operators, and write docs/coverage.md; ARGS="--only conv" selects
	@PYTHONPATH=build/python .venv/bin/python -m tests.python.opinfo --jobs $(JOBS) $(or $(ARGS),--markdown docs/coverage.md)

.PHONY: zoo
zoo: build ## Every architecture of transformers, small, against PyTorch, and write docs/models.md; ARGS="--only bert --dtype bf16" selects
	@PYTHONPATH=build/python .venv/bin/python -W ignore -m tests.python.architectures --jobs $(JOBS) $(or $(ARGS),--markdown docs/models.md)

.PHONY: zoo-stages
zoo-stages: build ## Whether every stage's text of the zoo's models compiles to the same program; ARGS="bert vit" selects
	@PYTHONPATH=build/python .venv/bin/python -W ignore tests/python/zoo_stages.py $(ARGS)

.PHONY: zoo-devices
zoo-devices: build ## The same, where a device (loopback) runs half of the nodes, chosen at random; ARGS="--only bert" selects
	@PYTHONPATH=build/python .venv/bin/python -W ignore -m tests.python.architectures --jobs $(JOBS) \
	  --plugin build/accelerators/loopback.so --device loopback:claim=0.5,seed=1 $(ARGS)

.PHONY: asan tsan gcc clang-16 clang-16-is-there
asan: | deps ## Build with AddressSanitizer and UBSan into build-asan, run the C++ tests
tsan: | deps ## Build with ThreadSanitizer into build-tsan, run the C++ tests
gcc: $(VENV_STAMP) | deps ## Build with g++ into build-gcc, where a warning is an error, run the C++ tests
clang-16: $(VENV_STAMP) | deps clang-16-is-there ## The same with clang 16 into build-clang-16
asan tsan gcc clang-16:
	@cmake --preset $@ --log-level=WARNING >/dev/null
	@cmake --build --preset $@ --parallel $(JOBS)
	@ctest --preset $@ --parallel $(JOBS) $(CTEST_ARGS)

clang-16-is-there: | deps
	@command -v clang++-16 >/dev/null || { \
	  sudo=$$([ "$$(id -u)" = 0 ] || echo sudo); echo "clang-16: installing clang-16"; \
	  $$sudo env DEBIAN_FRONTEND=noninteractive \
	    apt-get -qq install -y --no-install-recommends -o DPkg::Lock::Timeout=300 clang-16 >/dev/null; }

.PHONY: fuzz
fuzz: build ## Fuzz the loader and the verifier, SECONDS=1800 in all; what is found is left in build/fuzz
	@for target in artifact program object checkpoint; do \
	  echo "fuzz: $$target"; tests/fuzz/run.sh build/bin/fuzz_$$target $$target $$(($(or $(SECONDS),1800) / 4)); \
	done

.PHONY: models
models: build ## Every model of the zoo in its real size against PyTorch: BERT, GPT-2, Llama, T5, ViT, ResNet-50, ... (minutes)
	@TENON_MODELS=full .venv/bin/python -m pytest tests/python/test_models.py -n 1 $(PYTEST_ARGS)

.PHONY: digits
digits: build ## Train a CNN on handwritten digits from the command line; prints accuracy and seconds
	@.venv/bin/python examples/digits.py build/digits
	@build/bin/tenon compile build/digits/cnn.pt2 -o build/digits/cnn.tenon --train --loss cross_entropy \
	  --optimizer "adamw(lr=2e-3, schedule=cosine(460))"
	@build/bin/tenon train build/digits/cnn.tenon --data build/digits/train.npz --validate build/digits/test.npz \
	  --epochs 20 --batch 64 --metrics build/digits/loss.csv --plot build/digits/loss.svg \
	  --export build/digits/cnn.safetensors

.PHONY: ulp
ulp: build ## Measure the error of generated math at 10 million points each; prints function, dtype, worst error and where
	@TENON_ULP_POINTS=$(or $(POINTS),10000000) build/bin/tenon_tests --gtest_filter='All/MathTest.*' --gtest_brief=1

# ---- measurements ----------------------------------------------------------------------------------------------------

.PHONY: bench
bench: build $(BENCH_STAMP) ## Whole models beside eager, Inductor, ONNX Runtime, OpenVINO; ARGS="--quick --model bert", JSON=, SVG=
	@PYTHONPATH=build/python .venv-bench/bin/python -m bench.models $(if $(JSON),--json "$(JSON)") $(if $(SVG),--svg "$(SVG)") $(ARGS)

# The peers are in a venv of their own, which finds PyTorch in .venv.
$(BENCH_STAMP): bench/requirements.txt $(VENV_STAMP)
	@echo "bench: installing $< into .venv-bench"
	@.venv/bin/python -m venv .venv-bench
	@.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
	  > "$$(.venv-bench/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/dev.pth"
	@.venv-bench/bin/python -m pip install --quiet --disable-pip-version-check --requirement $<
	@touch $@

.PHONY: bench-passes
bench-passes: build ## Measure the passes, and the cpp backend on a matmul
	@build/bin/bench_passes
	@build/bin/bench_cpp_matmul

.PHONY: bench-kernels
bench-kernels: build ## Kernels against PyTorch's ops: the bars; ARGS="--quick --family matmul" selects, JSON=out.json
	@PYTHONPATH=build/python .venv/bin/python -m bench.kernels $(if $(JSON),--json "$(JSON)") $(ARGS)

.PHONY: bench-compile
bench-compile: build ## Measure how long kernels and programs take to compile, and to come from the cache; ARGS="bert" selects
	@build/bin/bench_compile
	@PYTHONPATH=build/python .venv/bin/python -W ignore -m bench.program_cache $(ARGS)

.PHONY: bench-capture
bench-capture: build ## Measure how long BERT-base's .pt2 takes to become a graph, and how much memory
	@.venv/bin/python bench/capture.py

.PHONY: bench-overhead
bench-overhead: build ## Measure what a call of torch.compile(backend="tenon") costs, beside Inductor
	@.venv/bin/python -W ignore bench/overhead.py

.PHONY: bench-artifact
bench-artifact: build ## Measure files: launching tasks, planned memory of the zoo's models, loading BERT-base; ARGS="bert" selects
	@build/bin/bench_dispatch
	@PYTHONPATH=build/python .venv/bin/python -W ignore -m bench.artifact $(ARGS)

.PHONY: bench-training
bench-training: build ## Training steps of GPT-2 and ResNet-18 beside eager and Inductor; ARGS="--model gpt2 --budget" selects
	@PYTHONPATH=build/python .venv/bin/python -W ignore -m bench.training $(if $(JSON),--json "$(JSON)") $(ARGS)

.PHONY: bench-training-budget
bench-training-budget: build ## Whether trainings stay within their budget: what processes hold; ARGS="--model gpt2 --part 0.7"
	@PYTHONPATH=build/python .venv/bin/python -W ignore -m bench.training_budget $(ARGS)

.PHONY: bench-zoo-budget
bench-zoo-budget: build ## The same for the architectures of the zoo; ARGS="--only bert,vit" or "--shard 0/8 --minutes 30" selects
	@PYTHONPATH=build/python .venv/bin/python -W ignore -m bench.zoo_budget --jobs $(JOBS) $(ARGS)

.PHONY: bench-trees
bench-trees: build ## Whether a change made anything slower: this build beside another one, BASE=../before/build/python; ARGS="--part models"
	@.venv/bin/python -W ignore -m bench.trees --base "$(BASE)" $(ARGS)

.PHONY: bench-lazy
bench-lazy: build ## Training on device "lazy" beside PyTorch's TorchScript backend and eager; ARGS="--width 128 --rounds 5"
	@PYTHONPATH=build/python .venv/bin/python -W ignore bench/lazy.py $(ARGS)

.PHONY: gradients
gradients: build ## Gradients of 2,000 random graphs against torch.autograd
	@TENON_RANDOM_GRAPHS=2000 .venv/bin/python -m pytest -q tests/python/test_random_gradients.py

.PHONY: random-programs
random-programs: build ## 2,000 random PyTorch functions by torch.compile against eager: views, writes, complex, constants, random, empty
	@TENON_RANDOM_PROGRAMS=2000 .venv/bin/python -m pytest -q -n $(JOBS) tests/python/test_random_programs.py

.PHONY: random-devices
random-devices: build ## 2,000 random graphs with random claims on a device beside the CPU, 500 with failures, and every op in every dtype
	@TENON_RANDOM_DEVICES=2000 build/bin/tenon_tests --gtest_filter='RandomDevices.*:*OpsOnADevice*'

.PHONY: bench-device-layers
bench-device-layers: build ## BERT-base with every second layer on a device (loopback): crossings and transfers; ARGS="--small"
	@PYTHONPATH=build/python .venv/bin/python -W ignore -m bench.device_layers $(ARGS)

.PHONY: bench-atalla
bench-atalla: build ## ResNet-50, MobileNetV2 and BERT-base on Atalla, int8 and bf16: bits, errors, cycles, utilization; ARGS="--quick --layers"
	@PYTHONPATH=build/python .venv/bin/python -W ignore -m bench.atalla $(ARGS)

.PHONY: bench-web
bench-web: build web ## Measure files in Node and Chromium, by their code: a matmul, MobileNetV2; and pages; ARGS="matmul pages" selects
	@PYTHONPATH=build/python .venv/bin/python -W ignore -m bench.web $(ARGS)

.PHONY: bench-library
bench-library: build ## Measure the library tasks (sort, topk, nonzero, random) against PyTorch
	@.venv/bin/python bench/library.py

# ---- style ----------------------------------------------------------------------------------------------------------

.PHONY: format
format: $(VENV_STAMP) | deps ## Rewrite the sources in the project's style
	@clang-format-19 -i $(CPP_FILES)
	@.venv/bin/ruff check --quiet --fix .
	@.venv/bin/ruff format --quiet .

.PHONY: lint
lint: $(VENV_STAMP) | deps ## Check style, and look for bugs with clang-tidy and ruff; changes nothing
	@clang-format-19 --dry-run -Werror $(CPP_FILES)
	@.venv/bin/ruff check --quiet .
	@.venv/bin/ruff format --quiet --check .
	@cmake --preset release --log-level=WARNING >/dev/null
	@printf '%s\n' $(TIDY_FILES) | xargs -P $(JOBS) -n 1 clang-tidy-19 -p build --quiet 2> >(grep -v 'warnings generated' >&2)
	@echo "lint: clean"

.PHONY: clean
clean: ## Remove what was built; .venv and the system packages stay
	@rm -rf build build-gcc build-clang-16 build-debug build-asan build-tsan compile_commands.json
