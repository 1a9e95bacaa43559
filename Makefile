# Everything needed is installed into .venv from requirements.lock, the tested versions.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: help demo test lint reference clean

help:
	@echo "make demo       set up, train on the bundled data, compare, predict"
	@echo "make test       set up, then lint, types and every test"
	@echo "make reference  write docs/reference anew from the settings and the commands"
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

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis
