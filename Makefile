# Everything here works on a machine that has only python 3.11 (with pip and venv) and make.
# Nothing is installed outside this folder.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
OUT    ?= runs/demo
ROWS   ?= 20000000

.DEFAULT_GOAL := help
.PHONY: help run test check format docs bench bench-data bench-metrics bench-apply bench-speed bench-peers clean

help: ## List the commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11), "monocal needs python 3.11 or newer"'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[neural,report,serve,export,bench,docs,dev]'
	@touch $@

run: $(STAMP) ## Simulate a click log, rank it, calibrate it, compare, save a model and a report (OUT=folder)
	$(BIN)/monocal demo --out $(OUT)

test: $(STAMP) ## Run all tests
	$(BIN)/python -m pytest -n 2 --dist loadfile

check: $(STAMP) ## Style, types, layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(STAMP) ## Put the code into shape
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(STAMP) ## Build the documentation site into site/
	$(BIN)/mkdocs build --strict

bench-data: $(STAMP) ## Encode a simulated log of ROWS rows; writes benchmarks/results/data_speed.md
	$(BIN)/python benchmarks/speed/data_speed.py --rows $(ROWS)

bench-metrics: $(STAMP) ## Evaluate every metric on ten million rows; writes benchmarks/results/metrics_speed.md
	$(BIN)/python benchmarks/speed/metrics_speed.py

bench-apply: $(STAMP) ## Apply models to two million rows; writes benchmarks/results/apply_speed.md
	$(BIN)/python benchmarks/speed/apply_speed.py

bench-speed: $(STAMP) ## Speed of UMC against the paper's formula; writes benchmarks/results/umc_speed.md
	$(BIN)/python benchmarks/speed/umc_speed.py

bench-peers: $(STAMP) ## Install the peers that studies compare with (large)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[peers]'

clean: ## Remove the environment and everything that was made
	rm -rf $(VENV) runs site build .pytest_cache .mypy_cache .ruff_cache .hypothesis
