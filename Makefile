# `make demo` runs the main job, `make test` the tests; both set up everything they need in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(CURDIR)/$(VENV)/bin
BUILD := build/python
JOBS ?= $(shell nproc)

.PHONY: all demo test test-cpp test-python soak lint format sanitize docs clean

all: $(VENV)/.installed

# The environment that the build uses; the package itself is built in it without isolation, so that
# a second build only compiles what changed.
$(VENV)/.ready: pyproject.toml requirements.txt requirements-cuda.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -r requirements.txt
	command -v nvcc >/dev/null || test -x /usr/local/cuda/bin/nvcc || \
	  $(BIN)/pip install --quiet --disable-pip-version-check -r requirements-cuda.txt || \
	  echo "No CUDA compiler was found or installed: this build will not use GPUs."
	touch $@

SOURCES := $(shell find src include python cmake tests -name '*.?pp' -o -name '*.cu' -o -name 'CMakeLists.txt' \
             -o -name '*.cmake' -o -name '*.h' -o -name '*.f90' -o -name '*.in' -o -name '*.map' -o -path 'python/tranship/*.py' 2>/dev/null)
$(VENV)/.installed: $(VENV)/.ready $(SOURCES) CMakeLists.txt
	CMAKE_BUILD_PARALLEL_LEVEL=$(JOBS) $(BIN)/pip install --quiet --disable-pip-version-check \
	  --no-build-isolation --no-deps --config-settings=cmake.define.TRANSHIP_TESTS=ON \
	  --config-settings=build-dir=$(BUILD) .
	touch $@

demo: $(VENV)/.installed
	$(BIN)/tranship demo

test: test-cpp test-python

test-cpp: $(VENV)/.installed
	$(BIN)/ctest --test-dir $(BUILD) --output-on-failure

test-python: $(VENV)/.installed
	$(BIN)/python -m pytest -q -m "not large"

# Threads that share an engine, with every kind of memory; `make soak SOAK_SECONDS=600` by hand.
SOAK_SECONDS ?= 60
soak: $(VENV)/.installed
	$(BIN)/python tests/python/soak.py --seconds $(SOAK_SECONDS)

lint: $(VENV)/.installed
	$(BIN)/pip install --quiet --disable-pip-version-check -r requirements-lint.txt
	$(BIN)/python tools/lint.py

format: $(VENV)/.ready
	$(BIN)/pip install --quiet --disable-pip-version-check -r requirements-lint.txt
	$(BIN)/python tools/lint.py --fix

# The C++ tests under AddressSanitizer with UBSan, then under ThreadSanitizer.
sanitize: $(VENV)/.ready
	tools/sanitize address,undefined
	tools/sanitize thread

# The documentation site, in build/docs/site: a broken link or anchor is an error. mkdocstrings reads the
# types of the compiled module from the stub that the build has written.
DOCS := build/docs
$(DOCS)/venv/.ready: requirements-docs.txt
	$(PYTHON) -m venv $(DOCS)/venv
	$(DOCS)/venv/bin/pip install --quiet --disable-pip-version-check -r requirements-docs.txt
	touch $@

docs: $(VENV)/.installed $(DOCS)/venv/.ready
	cp $(BUILD)/python/_core.pyi python/tranship/_core.pyi
	$(DOCS)/venv/bin/python tools/docs/assemble.py $(DOCS)
	NO_MKDOCS_2_WARNING=1 $(DOCS)/venv/bin/mkdocs build --clean -f $(DOCS)/mkdocs.yml
	@echo "The site is in $(DOCS)/site/index.html"

clean:
	rm -rf build $(VENV) demo-out
