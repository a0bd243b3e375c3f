# What people, docs and CI run. Everything runs from .venv, which is made from the hash-pinned lock.

PYTHON ?= python3
PYTEST_ARGS ?= -n 2
BENCH_ARGS ?=
LOCK_ARGS ?=
FUZZ_SECONDS ?= 600
FUZZ_SOURCES := onnx polygraphy dataset npy npz csv proof
UV_VERSION := 0.13.9

VENV := .venv
BIN := $(VENV)/bin
LOCKED := $(VENV)/.locked
TORCH := $(VENV)/.torch
READY := $(VENV)/.ready
OPENVINO := .venv-openvino/.ready
GPU := .venv-gpu/.ready
PEERS := .venv-bench/.ready
UV := .venv-lock/$(UV_VERSION)/bin/uv
# Modules are compiled when they are first imported, which most are never. What comes of it is kept,
# whatever else is set: without it each of the many processes that tests start compiles a thousand.
PIP_OPTIONS := --quiet --disable-pip-version-check --no-compile
unexport PYTHONDONTWRITEBYTECODE
PIP_INSTALL := $(BIN)/python -m pip install $(PIP_OPTIONS)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test torch openvino gpu gpu-simulated gpu-compiled nightly lint format bench peers lock clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(READY) ## gate a small model, from golden pack to verdict
	@$(BIN)/paritygate demo

test: $(READY) ## run all tests; PYTEST_ARGS="-k bands" replaces the default "-n 2"
	@$(MAKE) --no-print-directory torch >/dev/null 2>&1 || echo "the CPU build of torch can't be" \
	  "had here, so the tests of the torch runner are skipped; 'make torch' says why" >&2
	$(BIN)/python -m pytest $(PYTEST_ARGS)

openvino: $(OPENVINO) ## make .venv-openvino, with a second provider, for the tests of placement

torch: $(TORCH) ## install the CPU build of torch beside the lock, for the tests of its runner

gpu: gpu-simulated gpu-compiled ## kernels of the GPU, without one: compiled, and simulated

gpu-simulated: $(GPU)
	NUMBA_ENABLE_CUDASIM=1 PYTHONPATH=engine .venv-gpu/bin/python -m pytest tests/gpu/simulated

gpu-compiled: $(GPU)
	PYTHONPATH=engine .venv-gpu/bin/python -m pytest tests/gpu/compiled

nightly: $(READY) ## fuzz the readers of packs, models and sources; what is found stays in .fuzz
	@mkdir -p .fuzz/found .fuzz/models $(FUZZ_SOURCES:%=.fuzz/found-%)
	$(BIN)/python -m tests.fuzz.fuzz_pack -max_total_time=$(FUZZ_SECONDS) \
	  -artifact_prefix=.fuzz/ .fuzz/found tests/fuzz/corpus
	$(BIN)/python -m tests.fuzz.fuzz_inspect -max_total_time=$(FUZZ_SECONDS) \
	  -artifact_prefix=.fuzz/ .fuzz/models tests/fuzz/models
	@for target in $(FUZZ_SOURCES); do \
	  $(BIN)/python -m tests.fuzz.fuzz_sources $$target -max_total_time=$$(($(FUZZ_SECONDS) / 10)) \
	    -artifact_prefix=.fuzz/$$target- .fuzz/found-$$target tests/fuzz/sources/$$target \
	    || exit 1; \
	done

lint: $(READY) ## check format, lint, types, layers and that no machine is named
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	.ci/guard

format: $(READY) ## format and fix what can be fixed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(READY) ## measure against baselines and the hardware limit; BENCH_ARGS="..."
	$(BIN)/python bench/run.py $(BENCH_ARGS)

peers: $(PEERS) ## measure other tools beside this one, from .venv-bench; BENCH_ARGS="--quick"
	.venv-bench/bin/python bench/peers/run.py $(BENCH_ARGS)

lock: $(UV) ## renew requirements/*.txt; LOCK_ARGS=--upgrade takes newer versions
	$(UV) pip compile pyproject.toml requirements/build.in \
	  --constraint requirements/constraints.in \
	  --extra cpu --extra test --extra writers --extra lint \
	  --generate-hashes --universal --python-version 3.11 \
	  --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" \
	  --quiet --output-file requirements/dev.txt $(LOCK_ARGS)
	$(UV) pip compile requirements/models.in --no-deps \
	  --generate-hashes --universal --python-version 3.11 \
	  --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" \
	  --quiet --output-file requirements/models.txt $(LOCK_ARGS)
	$(UV) pip compile requirements/torch.in --constraint requirements/dev.txt \
	  --generate-hashes --universal --python-version 3.11 \
	  --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" \
	  --quiet --output-file requirements/torch.txt $(LOCK_ARGS)
	$(UV) pip compile pyproject.toml requirements/openvino.in --constraint requirements/dev.txt \
	  --generate-hashes --universal --python-version 3.11 \
	  --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" \
	  --quiet --output-file requirements/openvino.txt $(LOCK_ARGS)
	$(UV) pip compile pyproject.toml requirements/gpu.in --constraint requirements/dev.txt \
	  --generate-hashes --universal --python-version 3.11 \
	  --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" \
	  --quiet --output-file requirements/gpu.txt $(LOCK_ARGS)
	$(UV) pip compile pyproject.toml requirements/build.in requirements/bench.in \
	  --constraint requirements/constraints.in --constraint requirements/torch.txt \
	  --generate-hashes --universal --python-version 3.11 \
	  --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" \
	  --quiet --output-file requirements/bench.txt $(LOCK_ARGS)

clean: ## remove the environment, builds and caches; run folders stay
	rm -rf $(VENV) .venv-openvino .venv-gpu .venv-bench .venv-lock dist build
	rm -rf .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find . -name .git -prune -o -type d \( -name __pycache__ -o -name .numba_cache \) -prune \
	  -exec rm -rf {} +

$(READY): $(LOCKED) pyproject.toml
	@$(PIP_INSTALL) --no-deps --no-build-isolation -e .
	@touch $@

$(LOCKED): requirements/dev.txt requirements/models.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "paritygate needs Python 3.11 or newer; '$(PYTHON)' is" \
	    "$$($(PYTHON) --version 2>&1 || true). Say which to use: make PYTHON=python3.12" >&2; \
	  exit 1; }
	@echo "Making $(VENV) from requirements/dev.txt (once, a minute or two) ..." >&2
	@$(PYTHON) -m venv --clear $(VENV)
	@$(PIP_INSTALL) --require-hashes -r requirements/dev.txt
	@$(PIP_INSTALL) --require-hashes --no-deps -r requirements/models.txt
	@touch $@

$(TORCH): requirements/torch.txt requirements/torch-cpu.txt | $(READY)
	@$(PIP_INSTALL) --require-hashes --no-deps \
	  -r requirements/torch.txt -r requirements/torch-cpu.txt
	@$(BIN)/python -c 'import safetensors, torch'
	@touch $@

$(OPENVINO): requirements/openvino.txt
	@echo "Making .venv-openvino from requirements/openvino.txt (once, a minute or two) ..." >&2
	@$(PYTHON) -m venv --clear .venv-openvino
	@.venv-openvino/bin/python -m pip install $(PIP_OPTIONS) --require-hashes \
	  -r requirements/openvino.txt
	@.venv-openvino/bin/python -c 'import onnxruntime; onnxruntime.InferenceSession'
	@touch $@

$(GPU): requirements/gpu.txt
	@echo "Making .venv-gpu from requirements/gpu.txt (once, a minute or two) ..." >&2
	@$(PYTHON) -m venv --clear .venv-gpu
	@.venv-gpu/bin/python -m pip install $(PIP_OPTIONS) --require-hashes \
	  -r requirements/gpu.txt
	@touch $@

$(PEERS): requirements/bench.txt requirements/torch.txt requirements/torch-cpu.txt pyproject.toml
	@echo "Making .venv-bench from requirements/bench.txt (once, a minute or two) ..." >&2
	@$(PYTHON) -m venv --clear .venv-bench
	@.venv-bench/bin/python -m pip install --quiet --disable-pip-version-check \
	  --require-hashes -r requirements/bench.txt
	@.venv-bench/bin/python -m pip install --quiet --disable-pip-version-check \
	  --require-hashes --no-deps -r requirements/torch.txt -r requirements/torch-cpu.txt
	@.venv-bench/bin/python -m pip install --quiet --disable-pip-version-check \
	  --no-deps --no-build-isolation -e .
	@touch $@

$(UV):
	@$(PYTHON) -m venv --clear .venv-lock/$(UV_VERSION)
	@.venv-lock/$(UV_VERSION)/bin/python -m pip install --quiet --disable-pip-version-check \
	  uv==$(UV_VERSION)
