SHELL := /bin/bash
BIN := .venv/bin
UP_NODES ?= 4

.DEFAULT_GOAL := help
.PHONY: help venv bytecode test-packages test-bytecode lock up down test quick check fmt bench soak coverage proto bpf proto-check docs changelog dist deb archives images web web-if-possible web-tests clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 14

venv: .venv/.stamp  ## make .venv with everything installed

.venv/.stamp: pyproject.toml sdk/pyproject.toml constraints.txt tools/venv
	@tools/venv

# Programs are started by the hundred; without this each of them compiles every module where Python may not write bytecode by itself.
bytecode: venv
	@$(BIN)/python -m compileall -q -j 0 src sdk/src

test-bytecode: bytecode
	@$(BIN)/python -m compileall -q -j 0 tests
	@$(BIN)/python tools/rewrite_tests.py

lock: venv  ## rewrite constraints.txt from pyproject.toml
	$(BIN)/uv pip compile pyproject.toml --universal --all-extras --generate-hashes \
		--no-header --no-annotate --no-emit-package lattice-hpc-sdk --upgrade --quiet -o constraints.txt
	@! grep -nE '://|^--(extra-)?index|^--find-links' constraints.txt

web: venv  ## fetch the browser libraries of the web page from npm
	@$(BIN)/python tools/web.py

web-if-possible: venv
	@$(BIN)/python tools/web.py --optional

web-tests: web-if-possible
	@$(BIN)/python tools/web.py --optional --tests

up: bytecode web-if-possible  ## start a local cluster in the background and wait until it is ready; SERVERS=3 for three servers
	@case "$(SERVERS)" in ''|1) ;; *) tools/system-packages servers; command -v etcd >/dev/null || \
	{ echo "up: several servers need etcd; install it with: sudo apt-get install etcd-server" >&2; exit 2; };; esac
	@$(BIN)/lattice up --detach --nodes $(UP_NODES) $(if $(SERVERS),--servers $(SERVERS)); status=$$?; \
	if [ $$status -eq 3 ]; then echo "already up"; exit 0; fi; exit $$status

down:  ## stop the local cluster
	@if [ -x $(BIN)/lattice ]; then $(BIN)/lattice down; else echo "not running"; fi

# First: npm, which fetches the libraries of the web page, is one of them.
test-packages:
	@tools/system-packages test

# Tests with real processes wait for nearly half of their time: four workers leave two cores idle for a good part of it.
TEST_WORKERS ?= 5
test: test-packages test-bytecode web-tests  ## run the whole suite; pytest's summary comes last
	@$(BIN)/pytest --numprocesses=$(TEST_WORKERS) --dist=loadfile --no-loadscope-reorder --max-worker-restart=0

quick: test-bytecode  ## unit and architecture tests, under 90 seconds
	@$(BIN)/pytest -q --numprocesses=2 --dist=loadfile tests/unit tests/architecture

check: venv  ## formatting, lint, types, import contracts, architecture tests
	@tools/check

fmt: venv  ## format and apply the safe fixes
	$(BIN)/ruff check --fix --quiet . || true
	$(BIN)/ruff format .

bench: bytecode  ## measure; a table and JSON
	@tools/system-packages bench
	@$(BIN)/python -m bench

soak: bytecode  ## the long forms of the tests, ten minutes each; tools/soak says how to make them longer
	@tools/system-packages test
	@tools/system-packages soak
	@tools/soak $(SOAK)

coverage: venv  ## branch coverage of the core, which must be complete
	@$(BIN)/coverage run -m pytest -q --timeout=1800 tests/unit tests/properties
	@$(BIN)/coverage report | tail -n 1
	@$(BIN)/coverage report --fail-under=100 --include='src/lattice/core/machine/*,src/lattice/core/scheduler/*'

proto: venv  ## generate src/lattice/wire/pb from proto/
	@$(BIN)/python tools/proto.py

proto-check: venv  ## fail when the generated modules are not up to date
	@$(BIN)/python tools/proto.py --check

bpf: venv  ## compile bpf/ into the object that agents load; needs clang
	@$(BIN)/python tools/bpf.py

docs: venv  ## generate docs/reference and the man pages
	@$(BIN)/python tools/reference.py
	@$(BIN)/python tools/man.py

changelog: venv  ## fold the fragments of changes/ into CHANGELOG.md: make changelog VERSION=0.2.0
	@$(BIN)/python tools/changelog.py $(VERSION)

dist: venv web  ## build both wheels, their checksums and a list of all components into dist/
	@$(BIN)/python tools/dist.py

deb: venv web  ## build Debian packages of all parts into dist/
	@tools/system-packages deb
	@$(BIN)/python tools/dist.py >/dev/null
	@$(BIN)/python tools/deb.py

archives: venv web  ## build archives of the programs per architecture into dist/
	@$(BIN)/python tools/archives.py

images: archives  ## build OCI images of server and agent into dist/images/
	@tools/system-packages images
	@$(BIN)/python tools/images.py

clean:  ## remove everything that was built
	rm -rf .venv build dist sdk/dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage htmlcov
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
