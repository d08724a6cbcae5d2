# Every target but gpu-check sets itself up: .venv is made from the lock when it is missing or older than it.
#   PYTHON=...   interpreter that makes .venv      DEVICE=cpu|gpu   which lock
#   WORLDS=1     make setup: the packages of worlds too, as many as can be had
#   ARGS="..."   passed on to the command: make demo ARGS="seed=1", make test ARGS="-k ledger"

SHELL := bash
.DEFAULT_GOAL := help
.PHONY: help setup demo test test-all lint format docs bench gpu-check lock clean

DEVICE ?= $(if $(wildcard .venv/.ready-gpu),gpu,cpu)
$(if $(wildcard requirements/$(DEVICE).lock),,$(error DEVICE is cpu or gpu, not '$(DEVICE)'))
READY := .venv/.ready-$(DEVICE)
# Kernels that vLLM compiles on a GPU are built by the ninja of this environment.
export PATH := $(CURDIR)/.venv/bin:$(PATH)
export PYTHON
PYTEST := python -m pytest -n 2 --dist loadscope --no-loadscope-reorder

help: ## what there is
	@grep -hE '^[a-z-]+:.*## ' Makefile | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 18

setup: $(READY) ## make .venv: pinned packages and the `parley` command; WORLDS=1: those of worlds too
	@$(if $(WORLDS),deploy/worlds.sh,:)

$(READY): requirements/$(DEVICE).lock setup.cfg pyproject.toml deploy/setup.sh
	@deploy/setup.sh $(DEVICE)

demo: $(READY) ## train the embedded policy on Twenty Questions and show what it learned
	@parley train recipes/demo.yaml $(ARGS)

test: $(READY) ## run the tests, without the long ones
	@$(PYTEST) -m "not long" $(ARGS)

test-all: $(READY) ## run the long ones too: whole runs whose parts shorter tests show
	@PARLEY_FUZZ=100000 PARLEY_OTHER_PYTHONS=1 $(PYTEST) $(ARGS)

lint: $(READY) ## ruff, formatting, and the contract of the floors
	@ruff check .
	@ruff format --check .
	@lint-imports

format: $(READY) ## let ruff fix and format what it can
	@ruff check --fix --quiet .
	@ruff format .

docs: $(READY) ## build the site from docs/ into site/; a warning is an error
	@NO_MKDOCS_2_WARNING=1 mkdocs build --strict --quiet
	@python -m docs.words

bench: $(READY) ## measure rollout, learner and weight sync against their bare loops
	@python -m benchmarks $(ARGS)

# Sets nothing up: where .venv is not made, with PYTHON or python3 and what that has.
gpu-check: ## prove the GPU path on a card, in at most 24 minutes; the report goes to docs/results/
	@$(if $(wildcard $(READY)),python,$(or $(PYTHON),python3)) -m benchmarks.gpu $(ARGS)

lock: $(READY) ## write requirements/cpu.lock from what .venv holds
	@[[ $(DEVICE) == cpu ]] || { echo "lock: .venv holds the gpu packages; requirements/gpu.lock is pip's own resolution"; exit 1; }
	@{ sed -n '/^#/p' requirements/cpu.lock; python -m pip freeze --all --exclude-editable \
		| grep -vE '^(pip|torchvision|torchaudio|torchcodec)==' | grep -vixFf requirements/worlds.lock | LC_ALL=C sort -f; } > .venv/cpu.lock
	@mv .venv/cpu.lock requirements/cpu.lock

clean: ## remove .venv and caches; runs/ stays
	@rm -rf .venv .pytest_cache .ruff_cache .import_linter_cache .hypothesis build dist site *.egg-info
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
