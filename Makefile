SHELL := /bin/bash
BIN := .venv/bin

.DEFAULT_GOAL := help
.PHONY: help venv lock

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 14

venv: .venv/.stamp  ## make .venv with everything installed

.venv/.stamp: pyproject.toml sdk/pyproject.toml constraints.txt tools/venv
	@tools/venv

lock: venv  ## write constraints.txt anew from pyproject.toml
	$(BIN)/uv pip compile pyproject.toml --universal --all-extras --generate-hashes \
		--no-header --no-annotate --no-emit-package lattice-sdk --upgrade --quiet -o constraints.txt
	@! grep -nE '://|^--(extra-)?index|^--find-links' constraints.txt
