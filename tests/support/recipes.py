"""Short runs of every experiment on the generated language, through the code that users run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from omegaconf import DictConfig

import sts_lightning
from sts_lightning.config.folders import files_of
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.models.loading.run import build_encoder
from sts_lightning.runs.folder import RunFolder
from sts_lightning.workflows.start import train_in
from tests.conftest import SHORT_RUN

Config = Callable[..., DictConfig]

STEPS = [
    *SHORT_RUN,
    "data.batch_size=8",
    "trainer.max_epochs=-1",
    "trainer.max_steps=4",
    "trainer.val_every=2",
    "trainer.log_every_n_steps=1",
    "trainer.save_every=100",
    "optim.lr=1e-3",
    "logger=csv",
]

PREFIX = (
    "+model.adapter={_target_: peft.PrefixTuningConfig, task_type: FEATURE_EXTRACTION, num_virtual_tokens: 3}"
)
"""The adapter of model=llama2_7b_prefix."""

KINDS = {
    "angle_llama": "pairs",
    "bellm": "triplets",
    "codiemb_sts": "pairs",
    "contrast_tune": "triplets",  # it asks for positives only, which the generated pairs do not have
    "cotbert": "sentences",
    "cse_sfp": "sentences",
    "ct": "sentences",
    "demo": "pairs",
    "esimcse": "sentences",
    "infocse": "sentences",
    "minilm_distill_nli": "classes",
    "minilm_distill_pairs": "pairs",
    "minilm_joint": "triplets",
    "minilm_nli": "triplets",
    "minilm_pairs": "pairs",
    "mixcse": "sentences",
    "pcc_stage1": "triplets",
    "pcc_stage2": "pairs",
    "pearson_spearman": "pairs",
    "promcse": "sentences",
    "promcse_llama": "triplets",
    "promcse_sup": "triplets",
    "promptbert": "sentences",
    "promptbert_sup": "triplets",
    "rankcse": "sentences",
    "regression_head": "classes",
    "regression_nli": "classes",
    "regression_tune": "pairs",
    "simcse_sup": "triplets",
    "simcse_unsup": "sentences",
    "stage2": "pairs",
}
"""The kind of generated data that each experiment can use."""

STAGED = {"pcc", "minilm_eol", "minilm_distilled"}
"""Experiments of several stages, which are experiments themselves."""

SINGLE = sorted(files_of("experiment").keys() - STAGED)


def overrides(experiment: str, teacher: Path | None = None) -> list[str]:
    """Overrides of a short run; an experiment with a teacher needs the folder of one."""
    extra = {
        "esimcse": ["~data.paper_code_repetition"],
        "infocse": ["auxiliary.lower_layers=1"],
        "rankcse": [f"auxiliary.sources=[{teacher}]", "auxiliary.weights=null"],
        "minilm_distill_nli": [f"auxiliary.sources=[{teacher}]", "~data.limit"],
        "minilm_distill_pairs": [f"auxiliary.sources=[{teacher}]"],
        "contrast_tune": ["~data.positives_from"],
        "cse_sfp": decoder("mistral"),
        "regression_tune": ["trainer.init=best"],
        "regression_head": ["evaluation.final=true"],
        "angle_llama": [*decoder("llama"), "~data.scored"],
        "bellm": [*decoder("llama"), "~data.published_rows"],
        "promcse_llama": [*decoder("llama"), "~model.adapter", PREFIX],
        "pcc_stage1": decoder("mistral"),
        "pcc_stage2": [*decoder("opt"), "trainer.init=best"],
    }.get(experiment, [])
    if experiment == "minilm_joint":
        parts = [f"data@data.parts.{name}=toy" for name in ("nli", "sts")]
        parts += [f"data.parts.{name}.batch_size=8" for name in ("nli", "sts")]
        plain = [text for text in STEPS if not text.startswith("data")]
        return [f"experiment={experiment}", *plain, *parts, "data.parts.nli.kind=triplets"]
    return [f"experiment={experiment}", *STEPS, f"data.kind={KINDS[experiment]}", *extra]


def decoder(family: str) -> list[str]:
    """A small model in place of the large one, as quantised as that."""
    return [f"model=tiny_{family}", "model.quantization=4bit", "trainer=cpu", "optim.warmup=0"]


def losses(run: Path) -> list[float]:
    return [row["train/loss"] for row in RunFolder(run).history() if "train/loss" in row]


def check_training(experiment: str, config: Config, tmp_path: Path, teacher: Path) -> None:
    """Train a few steps, load the run, and compare the weights with those at the start."""
    run = tmp_path / "run"
    train_in(run, config(*overrides(experiment, teacher)))
    assert len(losses(run)) == 4
    encoder = sts_lightning.load(run)
    vectors = encoder.encode(["The boy hid a rug .", "A farmer ."])
    assert np.isfinite(vectors).all()
    untrained: SentenceEncoder = build_encoder(
        *(RunFolder(run).load_config()[key] for key in ("model", "prompt"))
    )
    moved = not np.allclose(vectors, untrained.encode(["The boy hid a rug .", "A farmer ."]), atol=1e-7)
    assert moved == (experiment != "regression_head")
