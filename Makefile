# Everything happens in .venv, which the first target that needs it creates: `make demo` or `make test` is enough
# on a machine that has only Python and pip.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

PYTHON ?= python3
# Where a GPU is present its own Python may already have what the CUDA tests need (torch, drivers); give it here.
PYTHON_GPU ?= $(PYTHON)
VENV := .venv
EXTRAS ?= opencl,cuda,plot,fleet,dev
# Test processes: one more than cores, since some tests wait; at most 8 (each of them loads the compiler once).
JOBS ?= $(shell echo $$(( $$(nproc 2>/dev/null || getconf _NPROCESSORS_ONLN) + 1 )))
# Each process takes a stretch of the tests, so that what a file sets up is set up once, and helps others at the end.
XDIST := -n $(JOBS) --maxprocesses 8 --dist worksteal
PYTEST_ARGS ?=
# Of fuzz, fuzz-api and fuzz-layers: how many random cases, hostile calls or layers, and which ones.
N ?= 2000
SEED ?= 1

# Tests and commands start many processes: without bytecode, each of them compiles the package again.
export PYTHONDONTWRITEBYTECODE :=

BIN := $(VENV)/bin
READY := $(VENV)/.ready

# Of test-torch: PyTorch's index of wheels without CUDA, or a Python that has PyTorch, expecttest and pytest already.
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu
PYTHON_TORCH ?=
# The index is asked once, and gets two seconds: a machine without a network would wait for minutes.
export ASK := import signal, sys, urllib.request; signal.alarm(2); urllib.request.urlopen(sys.argv[1], timeout=2)
PIP_ARGS ?=

# Of test-matrix: --cell NAME, --whole, --list.
MATRIX_ARGS ?=
# Of fuzz: --engines interpreter,llvm,ptx,opencl,cuda, --every 4 (kernels for OpenCL), --log FILE, --auto [cuda].
FUZZ_ARGS ?=
# Of fuzz-properties: how many examples of each property (some properties take a multiple of it).
EXAMPLES ?= 600

.PHONY: help demo test test-slow test-torch test-cuda12 test-aarch64 test-matrix fuzz fuzz-properties fuzz-api fuzz-layers check test-gpu bench docs release clean setup

help: ## show the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 20

setup: $(READY) ## create .venv with OpenCL on the CPU, the CUDA compiler and the development tools

demo: $(READY) ## climb both ladders of schedules, then tune a small convolution: under a minute
	@$(BIN)/tilewright ladder conv1d
	@echo; $(BIN)/tilewright ladder depthwise
	@echo; rm -f build/demo.log
	@$(BIN)/tilewright tune conv2d --shape 1x32x14x14 --kernel 1 --trials 20 --seed 0 --log build/demo.log

test: $(READY) ## run the tests; those that need a GPU skip, saying so, where there is none
	@$(BIN)/python -m pytest $(XDIST) $(PYTEST_ARGS)

test-slow: $(READY) ## run the tests that take more than ten seconds each, which `make test` leaves out
	@$(BIN)/python -m pytest $(XDIST) -m slow $(PYTEST_ARGS)
	@$(MAKE) --no-print-directory test-torch PYTEST_ARGS='-m "slow and torch" $(PYTEST_ARGS)'

# pip adds an index of its command line to its configured ones; PIP_EXTRA_INDEX_URL would replace them.
test-torch: ## run the tests that need PyTorch, with its CPU wheel (200 MB), or with PYTHON_TORCH=...
	@if [[ -z "$(PYTHON_TORCH)" && ! .venv-torch/.ready -nt pyproject.toml ]]; then \
	    if $(PYTHON) -c "$$ASK" $(TORCH_INDEX)/torch/ >/dev/null 2>&1; then index='--extra-index-url $(TORCH_INDEX)'; \
	    else index=; echo "$(TORCH_INDEX) does not answer: PyTorch comes from pip's own indexes (PyPI's has 5 GB of CUDA)"; \
	    fi; \
	    $(MAKE) --no-print-directory VENV=.venv-torch EXTRAS=opencl,cuda,torch-tests,dev PIP_ARGS="$$index" setup; \
	fi
	@$(or $(PYTHON_TORCH),.venv-torch/bin/python) -m pytest $(XDIST) -m torch $(PYTEST_ARGS)

test-cuda12: ## compile for sm_61 to sm_120 with the compiler of CUDA 12.9, in .venv-cuda12
	@$(MAKE) --no-print-directory VENV=.venv-cuda12 EXTRAS=cuda12,dev setup
	@.venv-cuda12/bin/python -m pytest $(XDIST) --slow tests/codegen/test_architectures.py $(PYTEST_ARGS)

test-aarch64: $(READY) ## run a part of the tests as on Linux for aarch64, by qemu-user, in 20 minutes
	@$(BIN)/python tools/aarch64.py $(if $(PYTEST_ARGS),-- $(PYTEST_ARGS))

test-matrix: $(READY) ## run tests as on other machines: cores, memory, descriptors, load, missing extras ...
	@$(BIN)/python tools/test_matrix.py $(MATRIX_ARGS) $(if $(PYTEST_ARGS),-- $(PYTEST_ARGS))

fuzz: $(READY) ## run N random schedules of random computations on every engine; SEED=... picks others
	@$(BIN)/python -m tests.fuzz --count $(N) --seed $(SEED) $(FUZZ_ARGS)

fuzz-properties: $(READY) ## run the properties with EXAMPLES=... random examples each, ten times those of `make test`
	@HYPOTHESIS_PROFILE=fuzz FUZZ_EXAMPLES=$(EXAMPLES) $(BIN)/python -m pytest $(XDIST) -m hypothesis $(PYTEST_ARGS)

fuzz-api: $(READY) ## run N hostile calls of the public API, N/10 command lines, N/40 modules; SEED=... picks others
	@$(BIN)/python -m tests.hostile calls --count $(N) --seed $(SEED)
	@$(BIN)/python -m tests.hostile commands --count $$(( ($(N) + 9) / 10 )) --seed $(SEED)
	@$(BIN)/python -m tests.hostile modules --count $$(( ($(N) + 39) / 40 )) --seed $(SEED)
	@if [[ -f tests/hostile/logs.py ]]; then \
	    $(BIN)/python -m tests.hostile.logs --count $$(( ($(N) + 9) / 10 )) --seed $(SEED); fi

fuzz-layers: ## compare N random layers in random memory orders with PyTorch, by PYTHON_TORCH; SEED=... picks others
	@$(or $(PYTHON_TORCH),.venv-torch/bin/python) -m tests.functional.random_layers --count $(N) --seed $(SEED)
	@$(or $(PYTHON_TORCH),.venv-torch/bin/python) -m tests.nn.random_models --count $(N) --seed $(SEED)

check: $(READY) ## lint, formatting, types, who may import whom, and the English of texts
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy --strict tilewright
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/python tools/english.py --check

test-gpu: ## run the tests that need an NVIDIA GPU, with PYTHON_GPU
	@$(PYTHON_GPU) -m pytest -m cuda $(PYTEST_ARGS)

bench: $(READY) ## run every benchmark in benchmarks/, but what runs them again: acceptance
	@shopt -s nullglob; found=; \
	for file in benchmarks/*.py; do \
	    name=$${file#benchmarks/}; name=$${name%.py}; \
	    case $$name in _*|acceptance*) continue ;; esac; \
	    found=1; echo "== benchmarks.$$name"; $(BIN)/python -m benchmarks.$$name; \
	done; \
	[[ -n $$found ]] || echo "benchmarks/ holds no benchmark yet"

docs: ## build the documentation site into build/site, with warnings as errors
	@$(MAKE) --no-print-directory VENV=.venv-docs EXTRAS=docs .venv-docs/.ready
	@.venv-docs/bin/python -m docs.site.build

release: $(READY) ## build the sdist and the wheel, and try the wheel in a clean environment
	@$(BIN)/python tools/release.py

clean: ## remove .venv, caches and build outputs
	rm -rf $(VENV) .venv-torch .venv-cuda12 .venv-docs build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# A Python split by its distribution may lack ensurepip; then its own pip fills the environment. pip prints one line
# per package it collects, and its errors.
$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null || { \
	    echo "make: Tilewright needs Python 3.11 to 3.13; '$(PYTHON)' is not that. Try: make PYTHON=python3.12" >&2; exit 1; }
	@if ! $(BIN)/python -m pip --version >/dev/null 2>&1; then \
	    echo "Creating $(VENV) with $$($(PYTHON) --version)"; rm -rf $(VENV); \
	    $(PYTHON) -m venv $(VENV) >/dev/null 2>&1 \
	    || { rm -rf $(VENV); $(PYTHON) -m venv --without-pip $(VENV) >/dev/null 2>&1 \
	         && $(PYTHON) -m pip --python $(BIN)/python install -q pip; } \
	    || { rm -rf $(VENV); \
	         echo "make: $(PYTHON) cannot create $(VENV): install its venv and pip (Debian, Ubuntu: apt install python3-venv)" >&2; \
	         exit 1; }; \
	fi
	@echo "Installing tilewright[$(EXTRAS)] into $(VENV) (about a minute the first time)"
	@$(BIN)/python -m pip install --disable-pip-version-check --progress-bar off $(PIP_ARGS) -e '.[$(EXTRAS)]' \
	    | sed -un -e 's/^Collecting \([A-Za-z0-9._-]*\).*/  + \1/p' -e 's/^Installing collected packages.*/  installing .../p'
	@touch $@
