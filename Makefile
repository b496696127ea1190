# Shortcuts for people. `make run` and `make test` work from a fresh clone: the stamp rule makes .venv and installs into it.
# Another interpreter: make test PYTHON=python3.13 (after `make clean` if .venv was made with a different one).

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
SOURCES := pyproject.toml setup.py $(wildcard reverse/*.p* ndual/_core/*.pyx ndual/_core/*.pxi ndual/_core/*.pxd ndual/_core/*.py ndual/_core/src/* ndual/rules/*.py)

.PHONY: run test real lint bench docs clean

# One BLAS thread: on matrices this small, threads cost more than they give, and the more so on a busy machine.
run: $(STAMP)
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m ndual

test: $(STAMP)
	$(BIN)/python -m pytest -q -n auto --maxprocesses 8

# Functions that nobody here wrote, against the committed list of results.
real: $(STAMP)
	$(BIN)/python -m pip install -q -e '.[test,real]'
	$(BIN)/python -m pytest -q tests/real

lint: $(STAMP)
	$(BIN)/python -m pip install -q -e '.[lint]'
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy -p ndual
	$(BIN)/python -m mypy.stubtest --concise --allowlist .ci/stubtest.txt --mypy-config-file pyproject.toml ndual._core._dual ndual.reverse._tape ndual.frontend._gate ndual.frontend._methods
	PATH="$(CURDIR)/$(BIN):$$PATH" cython-lint ndual reverse  # it calls pycodestyle by name

bench: $(STAMP)
	$(BIN)/python asv_bench/compare.py

docs: $(STAMP)
	$(BIN)/python -m pip install -q -e '.[docs]'
	$(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html

# Editable builds need setuptools >= 77, which the venv of an older Python does not come with.
$(STAMP): $(SOURCES)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --upgrade pip 'setuptools>=77'
	$(BIN)/python -m pip install -q -e '.[test,plot]'
	touch $@

clean:
	rm -rf $(VENV) build out docs/_build ndual/_core/*.so ndual/_core/*.c ndual/_core/generated
