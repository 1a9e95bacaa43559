# Everything needed is installed into .venv from requirements.lock, the tested versions.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: help demo test lint reference bench bench-peers clean

help:
	@echo "make demo       set up, train on the bundled data, compare, predict"
	@echo "make test       set up, then lint, types and every test"
	@echo "make reference  write docs/reference anew from the settings and the commands"
	@echo "make bench      run what is left of the benchmarks, write tables and figures (BENCH='cve_small --seeds 0 1')"
	@echo "make bench-peers  set up the environments of the other libraries for it"
	@echo "make clean      remove the environment and caches"

.venv/ready: requirements.lock pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -r requirements.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	touch .venv/ready

demo: .venv/ready
	$(BIN)/haxmlnet demo

lint: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: lint
	$(BIN)/pytest

reference: .venv/ready
	$(BIN)/python docs/build_reference.py

# The tables are written even when a run has failed; then make fails after them.
bench: .venv/ready
	@$(BIN)/python -m benchmarks run $(BENCH); failed=$$?; $(BIN)/python -m benchmarks tables && exit $$failed

bench-peers: .venv-peers/ready .venv-peers-neural/ready

.venv-peers/ready: benchmarks/peers/requirements.txt
	$(PYTHON) -m venv .venv-peers
	.venv-peers/bin/pip install --quiet --disable-pip-version-check --no-deps -r $<
	touch $@

.venv-peers-neural/ready: benchmarks/peers/requirements-neural.txt
	$(PYTHON) -m venv .venv-peers-neural
	.venv-peers-neural/bin/pip install --quiet --disable-pip-version-check -r $<
	touch $@

clean:
	rm -rf .venv .venv-peers .venv-peers-neural .pytest_cache .mypy_cache .ruff_cache .hypothesis
