# Headway. `make` alone lists the targets; CI runs what this file says and nothing else.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules --no-print-directory

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.headway-ready
DISTS := protos services/runtime services/coordinator services/relay services/timers services/worker client cli
PROJECTS := $(addsuffix /pyproject.toml,$(DISTS))
# uv trusts what the machine trusts, as pip does.
export UV_SYSTEM_CERTS := 1
# Arguments for pytest: make test ARGS="tests/core -k join"; ARGS="-m 'not slow'" leaves out what starts whole stacks.
# And for the benchmarks: make bench ARGS="--only tasks_per_s".
ARGS ?=

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

##@ Environment

# Which Python: PYTHON=… when given, else the first on PATH that Headway supports.
SUPPORTED := import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python; do \
	"$$p" -c '$(SUPPORTED)' >/dev/null 2>&1 && { echo "$$p"; break; }; done)

.PHONY: setup
setup: python-matches ## make .venv with everything in it (PYTHON=python3.12 make setup chooses the interpreter)
	@$(MAKE) --silent $(READY)

# A .venv of another Python than the one asked for is made anew; without PYTHON=… whatever is there is kept.
.PHONY: python-matches
python-matches:
	@if [ "$(origin PYTHON)" != file ] && [ -x $(BIN)/python ]; then \
	  version='import sys; print("%d.%d" % sys.version_info[:2])'; \
	  if [ "$$('$(PYTHON)' -c "$$version")" != "$$($(BIN)/python -c "$$version" || true)" ]; then \
	    echo "$(VENV) is of another Python than $(PYTHON): making it anew"; rm -rf $(VENV); fi; fi

# uv first: pinned, checked by hash, and much faster than pip at the rest. Where only pip can reach the index (a mirror
# or a certificate set in pip's own configuration), pip installs the same pinned set.
$(READY): requirements/bootstrap.txt requirements/dev.txt $(PROJECTS)
	@if [ -z "$(PYTHON)" ] || ! '$(PYTHON)' -c '$(SUPPORTED)'; then \
	  echo "Headway needs Python 3.11, 3.12 or 3.13; name one: make setup PYTHON=/path/to/python3.12" >&2; exit 1; fi
	@$(BIN)/python -c 'import pip; $(SUPPORTED)' 2>/dev/null || '$(PYTHON)' -m venv --clear $(VENV)
	@echo "setting up $(VENV) …"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements/bootstrap.txt
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --require-hashes -r requirements/dev.txt \
	  || $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements/dev.txt
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --offline $(addprefix -e ./,$(DISTS)) \
	  || $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --no-index $(addprefix -e ./,$(DISTS))
	@touch $@

COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	--no-emit-find-links --no-header --no-annotate

.PHONY: lock
lock: ## resolve the dependencies anew into requirements/*.txt (UPGRADE=1 takes newer versions)
	@[ -x $(BIN)/uv ] || { '$(PYTHON)' -m venv $(VENV) && \
	  $(BIN)/python -m pip install --quiet --no-deps --require-hashes -r requirements/bootstrap.txt; }
	@$(COMPILE) $(if $(UPGRADE),--upgrade) requirements/bootstrap.in -o requirements/bootstrap.txt
	@$(COMPILE) $(if $(UPGRADE),--upgrade) requirements/dev.in -o requirements/dev.txt \
	  $(addprefix --no-emit-package ,headway $(addprefix headway-,api runtime coordinator relay timers worker client))

##@ Running

.PHONY: demo
demo: setup ## run the order example from start to end, a kill -9 included
	@$(BIN)/python -m examples.order_fulfilment.demo

.PHONY: dev
dev: setup ## start every service on this machine, over embedded servers
	@$(BIN)/headway dev

.PHONY: up
up: ## start the containers of docker-compose.yml
	docker compose up --build --detach --wait

.PHONY: down
down: ## stop them (their data stays)
	docker compose down

.PHONY: bench
bench: setup ## measure throughput, latency, growth, recovery: under half an hour (ARGS="--quick": two minutes)
	@$(BIN)/python -m bench $(ARGS)

.PHONY: bench-soak
bench-soak: setup ## ten minutes of load: does memory grow?
	@$(BIN)/python -m bench --soak 10

.PHONY: bench-peers
bench-peers: setup ## the same ten steps here, on Restate, on DBOS and in pgbench, in turn
	@$(BIN)/python -m bench.peers $(ARGS)

##@ Checking

.PHONY: test
test: setup ## run the tests (some of them: ARGS="tests/core -k join"; without the slow ones: ARGS="-m 'not slow'")
	@$(BIN)/python -m pytest $(ARGS)

.PHONY: check
check: lint types contracts proto-fresh proto-lint docs-fresh ## everything below that finds faults without running a test

.PHONY: lint
lint: setup ## ruff: style, faults, formatting
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check

.PHONY: format
format: setup ## let ruff mend what it can
	@$(BIN)/ruff check --fix-only --quiet || true
	@$(BIN)/ruff format

.PHONY: types
types: setup ## basedpyright
	@$(BIN)/basedpyright

.PHONY: contracts
contracts: setup ## import-linter: who may import whom
	@$(BIN)/lint-imports

.PHONY: proto
proto: setup ## write the stubs from the .proto files
	@$(BIN)/python protos/generate.py

.PHONY: proto-fresh
proto-fresh: setup ## fail when the committed stubs are not what the .proto files give
	@$(BIN)/python protos/generate.py --check

.PHONY: proto-lint
proto-lint: setup ## buf lint
	@cd protos && ../$(BIN)/buf lint

.PHONY: docs
docs: setup ## write the generated pages of docs/
	@$(BIN)/python docs/generate.py

.PHONY: docs-fresh
docs-fresh: setup ## fail when a generated page is not what the code gives
	@$(BIN)/python docs/generate.py --check

.PHONY: clean
clean: ## remove .venv, caches and the data of `make dev`
	rm -rf $(VENV) .headway .pytest_cache .ruff_cache .hypothesis .import_linter_cache
