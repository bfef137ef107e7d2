# Everything here works on a machine that has only python 3.11 (with pip and venv) and make.
# Nothing is installed outside this folder.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
DEMO   := $(VENV)/.demo
OUT    ?= runs/demo
ROWS   ?= 20000000
# A newer interpreter than the one above, if this machine has one.
OTHER_PYTHON ?= $(shell for one in python3.14 python3.13 python3.12 $(HOME)/.pyenv/versions/3.13*/bin/python $(HOME)/.pyenv/versions/3.12*/bin/python; do \
	$$one -c '' 2> /dev/null && echo $$one && break; done)
# What needs neither torch nor the service.
LIGHT_TESTS := tests/unit/core tests/unit/tables tests/unit/models \
	tests/unit/evaluation tests/unit/calibrators/test_monotone_arithmetic.py tests/unit/calibrators/test_edges.py \
	tests/oracles/test_statistical_calibrators.py tests/oracles/test_metrics_t10.py \
	tests/oracles/test_metrics_sklearn.py tests/properties tests/contracts/test_metrics.py \
	tests/integration/cli/test_fit.py tests/integration/cli/test_apply.py
# What networks, their losses and their exported graphs must do with any torch.
NETWORK_TESTS := tests/contracts tests/oracles tests/lab/reconstructions tests/lab/exact_concat tests/unit/neural \
	tests/unit/ops tests/unit/compiled tests/integration/test_onnx.py
CLIENTS := pytest pytest-timeout pytest-xdist hypothesis pandas polars duckdb psutil

.DEFAULT_GOAL := help
.PHONY: help run test test-product test-lab test-cluster test-other-python test-lowest test-lowest-networks test-newest release mutants check format docs bench bench-data bench-metrics bench-apply bench-speed bench-speed-all bench-peers bench-promotions clean

help: ## List the commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-16s %s\n", $$1, $$2}'

# What the demo and the service that the README starts need; tests, docs and benchmarks add the rest.
$(DEMO): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11), "monocal needs python 3.11 or newer"'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[neural,report,serve]'
	@touch $@

$(STAMP): $(DEMO)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[neural,report,serve,export,bench,docs,dev]'
	@touch $@

run: $(DEMO) ## Simulate a click log, calibrate it, judge, save model and report, and answer one request (OUT=folder)
	$(BIN)/monocal demo --out $(OUT)

test: test-product test-lab ## Run all tests but those of a cluster: the product's, then the laboratory's

test-product: $(STAMP) ## Run the product's tests (COVER=yes also prints the files they reach least)
	$(BIN)/python -m pytest -n 2 --dist loadfile -m 'not cluster' --ignore=tests/lab --ignore=src/monocal/lab $(if $(COVER),--cov=monocal --cov-report=)
	@$(if $(COVER),$(BIN)/python -m coverage report --sort=cover --skip-covered --skip-empty | head -n 40)

test-lab: $(STAMP) ## Run the laboratory's tests: simulator, sources, rankers, studies
	$(BIN)/python -m pytest -n 2 --dist loadfile tests/lab src/monocal/lab

test-cluster: $(STAMP) ## Start Spark and torchrun and run the tests that need them (java 17; installs pyspark)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[spark]' 'pyspark[connect]'
	$(BIN)/python -m pytest -q -m cluster tests/cluster

test-other-python: ## Run what needs no torch on a newer python, in an environment of its own
	@test -n "$(OTHER_PYTHON)" || { echo "no python 3.12 or newer here: nothing to test"; exit 0; }; \
	test -x .venv-other/bin/python || $(OTHER_PYTHON) -m venv .venv-other; \
	.venv-other/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e . $(CLIENTS) && \
	.venv-other/bin/python -m pytest -q -n 2 --dist loadfile -m 'not extras' $(LIGHT_TESTS)

test-lowest: ## Run what needs no torch with the lowest allowed versions, in an environment of its own
	test -x .venv-lowest/bin/python || $(PYTHON) -m venv .venv-lowest
	.venv-lowest/bin/python -m pip install --quiet --disable-pip-version-check -c lowest.txt -e . $(CLIENTS)
	.venv-lowest/bin/python -m pytest -q -n 2 --dist loadfile -m 'not extras' $(LIGHT_TESTS)

test-lowest-networks: ## Run networks with the lowest allowed versions, in an environment of its own (gigabytes)
	test -x .venv-lowest-networks/bin/python || $(PYTHON) -m venv .venv-lowest-networks
	.venv-lowest-networks/bin/python -m pip install --quiet --disable-pip-version-check -c lowest.txt -e '.[neural,report,export]' $(CLIENTS) umnn
	.venv-lowest-networks/bin/python -m pytest -q -n 2 --dist loadfile $(NETWORK_TESTS)

release: $(STAMP) ## Build the sdist and the wheel into dist/ (REPOSITORY=https://… makes the README's links absolute)
	$(BIN)/python deploy/release.py --out dist $(if $(REPOSITORY),--repository $(REPOSITORY))

test-newest: ## Run networks with the newest of everything that is allowed, in an environment of its own (gigabytes)
	test -x .venv-newest/bin/python || $(PYTHON) -m venv .venv-newest
	.venv-newest/bin/python -m pip install --quiet --disable-pip-version-check --upgrade --upgrade-strategy eager -e '.[neural,export]' $(CLIENTS) umnn
	.venv-newest/bin/python -m pytest -q -n 2 --dist loadfile $(NETWORK_TESTS)

mutants: $(STAMP) ## Change the code a little, 320 times, and count how often tests notice (an hour of a quiet core)
	$(BIN)/python benchmarks/mutants/run.py --n 320

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

bench-data: $(STAMP) ## Encode a simulated log of ROWS rows; keeps the table data_speed of benchmarks/results/speed.jsonl
	$(BIN)/python benchmarks/speed/data_speed.py --rows $(ROWS) | $(BIN)/python benchmarks/tables.py speed data_speed --keep

bench-metrics: $(STAMP) ## Evaluate every metric on ten million rows; keeps the table metrics_speed of benchmarks/results/speed.jsonl
	$(BIN)/python benchmarks/speed/metrics_speed.py | $(BIN)/python benchmarks/tables.py speed metrics_speed --keep

bench-apply: $(STAMP) ## Apply models to two million rows; keeps the table apply_speed of benchmarks/results/speed.jsonl
	$(BIN)/python benchmarks/speed/apply_speed.py | $(BIN)/python benchmarks/tables.py speed apply_speed --keep

bench-speed: $(STAMP) ## Speed of UMC against the paper's formula; keeps the table umc_speed of benchmarks/results/speed.jsonl
	$(BIN)/python benchmarks/speed/umc_speed.py | $(BIN)/python benchmarks/tables.py speed umc_speed --keep

bench-speed-all: $(STAMP) ## The speed record: everything beside its yardstick; keeps the table speed of benchmarks/results/speed.jsonl
	$(BIN)/python benchmarks/speed/record.py | $(BIN)/python benchmarks/tables.py speed speed --keep

bench-peers: $(STAMP) ## Install the peers that studies compare with (large)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[peers]'

bench-promotions: bench-peers ## Install the promotions log (31.6 MB, for teaching and research) and run its study (hours; fewer with OPTIONS, see monocal lab bench --help)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[promotions]'
	$(BIN)/monocal lab bench promotions --out runs $(OPTIONS)

clean: ## Remove the environment and everything that was made
	rm -rf $(VENV) .venv-other .venv-lowest .venv-lowest-networks .venv-newest .coverage runs site build .pytest_cache .mypy_cache .ruff_cache .hypothesis
