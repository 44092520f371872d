"""Bad values of every setting: each is rejected, and the error names the setting.

A configuration is composed once for each group of settings and changed as Hydra changes it. The checks of a
run follow up to the point at which data are read.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from sts_lightning.config.constraints import check_config
from sts_lightning.config.machine import decide
from sts_lightning.errors import UserError
from sts_lightning.runs.folder import RunFolder
from sts_lightning.workflows.trainer_checks import check_trainer
from sts_lightning.workflows.validate import build_parts
from tests.conftest import CONF, SHORT_RUN

TRIPLETS = ["loss=infonce", "data.kind=triplets"]
SENTENCES = ["loss=infonce", "data.kind=sentences", "data.repetition=0.2"]
MIX = ["loss=mix", "+loss.terms.a._target_=sts_lightning.losses.pearson.PearsonLoss", "+loss.weights.a=1"]
MATRYOSHKA = ["loss=matryoshka", "+loss.inner._target_=sts_lightning.losses.spearman.SpearmanLoss"]
MATRYOSHKA += ["+loss.inner.temperature=0.2", "loss.dimensions=[32,16]", "loss.weights=[1.0,1.0]"]

BASES: dict[str, list[str]] = {
    "pairs": [],
    "triplets": [*TRIPLETS, "queue.size=8"],
    "sentences": SENTENCES,
    "rank": ["regularizer=rank_reduction", "callbacks=rank_monitor"],
    "ema": ["callbacks=ema"],
    "stopping": ["callbacks=early_stopping"],
    "decoder": ["model=tiny_mistral", "prompt=eol"],
    "mix": MIX,
    **{name: [f"loss={name}"] for name in ("angle", "cosent", "ibn", "l1", "smooth_k2", "spearman")},
    **{name: [f"loss={name}"] for name in ("kendall", "listmle", "listnet")},
    "rank_margin": ["loss=rank_margin", "data.batch_size=32"],
    **{name: [f"loss={name}", "data.kind=triplets"] for name in ("gist", "hardness", "sigmoid")},
    "matryoshka": MATRYOSHKA,
    "vectors": ["loss=vector_distillation", "companion=teacher_vectors", "companion.sources=[x]"],
    "divided": ["loss=divided", "+loss.inner._target_=sts_lightning.losses.cosent.CoSENTLoss"],
    "orthogonal": ["regularizer=global_orthogonal"],
    "decoupled": ["loss=decoupled", "data.kind=triplets"],
    "energy": ["loss=energy", "data.kind=triplets"],
    "mixcse": ["loss=mixcse", "data.kind=sentences"],
    "file": ["~data", "+data=pairs_file", "path=mine.csv"],
}
"""Overrides of each base, besides a short run of pairs."""

NUMBER = "null fast [] nan 1e30"
"""Values that no number has."""

COUNT = f"{NUMBER} 1.5"
FLAG = "null maybe yes [] 0 1 7 1.5"
CHOICE = "'' nonsense [] 7"
NODE = "null '' 5 [] ${nope}"
TEXT = "'' [] {a:1} ${nope}"
VALUES: dict[str, dict[str, str]] = {
    "pairs": {
        "debug": FLAG,
        "trust": "${seed} 5 {a:1} ${nope}",
        "trust_remote_code": FLAG,
        "share_stages": FLAG.removeprefix("null "),
        "prompt.denoise_evaluation": FLAG,
        "evaluation.untuned": FLAG,
        "name": f"{TEXT} null",
        "seed": f"{COUNT} -1 4294967296",
        "senteval_text": CHOICE,
        "path": f"{TEXT} mine.csv",
        "precision": CHOICE,
        "init": CHOICE,
        "init_from": TEXT,
        "freeze": f"{CHOICE} encoder",
        "model": NODE,
        "loss": NODE,
        "data": NODE,
        "regularizer": "'' x 5 [1] ${nope}",
        "companion": "'' x 5 [1] ${nope}",
        "loss.official": FLAG,
        "queue.size": f"{COUNT} -1 8 100000000",
        "queue.momentum": f"{NUMBER} -1 1",
        "data.kind": CHOICE,
        "data.batch_size": f"{COUNT} -1 0 1 2000000",
        "data.train_size": f"{COUNT} -1 0 1 2000000",
        "data.dev_size": f"{COUNT} -1 0 1",
        "data.seed": f"{COUNT} -1",
        "data.num_workers": f"{COUNT} -1 5000",
        "data.views": f"{COUNT} -1 0 4 3",
        "data.repetition": f"{NUMBER} -1 2",
        "optim.lr": f"{NUMBER} -1 0",
        "optim.head_lr": f"{NUMBER.removeprefix('null ')} -1 0 1e-3",
        "optim.layer_decay": f"{NUMBER} -1 0 1.5",
        "optim.decay_embeddings": FLAG,
        "optim.weight_decay": f"{NUMBER} -1",
        "optim.betas": "null '' fast [] [0.9] [0.9,1] [-0.1,0.9] [0.9,0.99,0.999] {a:1} ${nope}",
        "optim.eps": f"{NUMBER} -1 0",
        "optim.schedule": CHOICE,
        "optim.warmup": f"{NUMBER} -1 1.5",
        "optim.stretch": f"{NUMBER} -1 0 0.5",
        "evaluation.final": FLAG,
        "evaluation.rank": FLAG,
        "evaluation.aggregate": CHOICE,
        "evaluation.precision": f"{CHOICE} 16-mixed",
        "evaluation.text_edit": CHOICE,
        "trainer.accelerator": CHOICE,
        "trainer.cpu_fallback": FLAG,
        "trainer.devices": f"{COUNT} 0 -2 -1",
        "trainer.num_nodes": f"{COUNT} 0 -1",
        "trainer.max_epochs": f"{COUNT.removeprefix('null ')} 0 -7",
        "trainer.max_steps": f"{COUNT.removeprefix('null ')} 0 -5",
        "trainer.limit_train_batches": f"{COUNT.removeprefix('null ')} 0 -3",
        "trainer.val_every": f"{NUMBER.removeprefix('null ')} 0 -0.5 1.5",
        "trainer.save_every": f"{COUNT} 0 -1",
        "trainer.keep_every": f"{COUNT.removeprefix('null ')} 0 -1",
        "trainer.wise_ft": "null '' 0.5 half [half] [-0.1] [0.5,1.1] [nan] {a:1} ${nope}",
        "trainer.gradient_clip_val": f"{NUMBER.removeprefix('null ')} 0 -1",
        "trainer.log_every_n_steps": f"{COUNT} 0 -1",
        "trainer.deterministic": "null '' maybe [] {a:1} 1 0 7 1.5 ${nope}",
        "trainer.chunk_tokens": f"{COUNT} 0 -1",
        "trainer.micro_batch_size": f"{COUNT.removeprefix('null ')} 0 -1 7",
        "trainer.gradient_checkpointing": FLAG,
        "trainer.official_gather": FLAG,
        "trainer.extra": "${seed} 5 []",
        "queue": "${seed} 5 []",
        "stages": "${seed} 5 []",
        "prompt.template": "'' nothing [] {a:1} ${nope}",
        "prompt.denoise": CHOICE,
        "logger": "${seed} 5 []",
        "logger.csv": NODE,
        "logger.tensorboard.name": "[] {a:1} 5 true",
        "logger.tensorboard.version": "[] {a:1} 1.5",
    },
    "triplets": {
        "loss.temperature": f"{NUMBER} -1 0",
        "loss.hard_negative_weight": NUMBER,
        "loss.positive_negatives": FLAG,
        "queue.momentum": f"{NUMBER} -1 1",
    },
    "sentences": {"data.views": "0 4 null 1.5", "data.repetition": "-1 1.5 nan null fast"},
    "rank": {
        "regularizer": NODE.removeprefix("null ").replace(" []", ""),
        "regularizer.coefficient": f"{NUMBER} -1",
        "callbacks.rank_monitor": NODE,
        "callbacks.rank_monitor.every": f"{COUNT} 0 -1",
        "callbacks.rank_monitor.pairs": f"{COUNT.removeprefix('null ')} 1 -1",
        "callbacks.rank_monitor.fraction": f"{NUMBER} 0 2",
        "callbacks.rank_monitor.views": f"{CHOICE} null",
    },
    "ema": {"callbacks.ema.decay": NUMBER, "callbacks.ema.use_buffers": FLAG},
    "stopping": {
        "callbacks.early_stopping.patience": COUNT,
        "callbacks.early_stopping.monitor": "[] 5 {a:1}",
    },
    "decoder": {
        "model.adapter.r": COUNT,
        "model.adapter.lora_alpha": COUNT,
        "model.adapter.lora_dropout": NUMBER,
        "model.dtype": CHOICE,
        "model.quantization": CHOICE,
        "model.hidden_size": COUNT,
        "model.bidirectional_layers": COUNT,
    },
    "mix": {"loss.terms.a": "${nope}", "loss.weights.a": "nan ${nope}"},
    "angle": {"loss.scale": f"{NUMBER} 0"},
    "cosent": {"loss.scale": f"{NUMBER} 0 -20"},
    "ibn": {"loss.scale": f"{NUMBER} -20", "loss.positive_from": f"{NUMBER} 0 6"},
    "l1": {"loss.spacing": f"{NUMBER} 0 -1", "loss.features": CHOICE, "loss.clamp": CHOICE},
    "smooth_k2": {"loss.k": f"{NUMBER} 0 -2"},
    "spearman": {"loss.temperature": f"{NUMBER} 0 -1"},
    "kendall": {"loss.temperature": f"{NUMBER} 0 -1"},
    "listmle": {"loss.scale": f"{NUMBER} 0 -20"},
    "listnet": {"loss.scale": f"{NUMBER} 0", "loss.score_temperature": f"{NUMBER} 0 -1"},
    "rank_margin": {"loss.gap": f"{NUMBER} -1", "loss.scale": f"{NUMBER} 0"},
    "gist": {"loss.guide": CHOICE, "loss.margin": f"{NUMBER} 2 -2"},
    "hardness": {"loss.hardness": f"{NUMBER} -1", "loss.prior": f"{NUMBER} -0.1 1"},
    "sigmoid": {"loss.scale": f"{NUMBER} 0 -1", "loss.bias": NUMBER},
    "vectors": {
        "loss.teacher_dimension": "fast [] nan 1.5 0 -1",
        "companion.weights": "[] [1,2] [0] [nan] fast",
        "companion.pooling": CHOICE,
        "companion.max_length": f"{COUNT.removeprefix('null ')} -1 0 2",
        "companion.precision": f"{CHOICE} bf16-mixed auto",
        "companion.cache_dir": "[] {a:1} ${nope} pyproject.toml",
    },
    "divided": {"loss.parts": f"{COUNT} 0 -1"},
    "matryoshka": {
        "loss.inner.temperature": f"{NUMBER} 0 -1",
        "loss.dimensions": "null [] 5 fast [32,32] [0] [1.5] [1000000]",
        "loss.weights": "fast [] [1] [0,0] [1,-1] [1,nan]",
    },
    "orthogonal": {"regularizer.coefficient": f"{NUMBER} -1"},
    "decoupled": {"loss.uniformity_weight": f"{NUMBER} -1"},
    "energy": {"loss.margin": f"{NUMBER} -0.2"},
    "mixcse": {"loss.mix": f"{NUMBER} -1 2"},
    "file": {
        "data.path": "null [] 5 {} {a:0} {a:x} [a,a] ${nope}",
        "data.sentence1": "null [] 5 {a:1} sentence2 score ${nope}",
        "data.score_range": "'' [] [0] [0,1,2] [0,inf] [nan,5] [5,0] [1,1] [low,high] 5 ${nope}",
        "data.dev_fraction": f"{NUMBER} 0 1 -1",
    },
}
"""Bad values of each setting, with the base that has it."""

ROWS = [
    (base, key, value)
    for base, keys in VALUES.items()
    for key, values in keys.items()
    for value in dict.fromkeys(values.replace("'' ", "<blank> ").split())
]


@pytest.fixture(scope="module")
def bases() -> Iterator[dict[str, DictConfig]]:
    with initialize_config_dir(str(CONF), version_base="1.3"):
        run = [*SHORT_RUN, "data.batch_size=16", "name=test"]
        own = ["model=tiny_bert", "precision=32-true", "data=pairs_file", "path=mine.csv", "name=test"]
        yield {
            base: compose("train", own if base == "file" else [*run, *overrides])
            for base, overrides in BASES.items()
        }


def rejected_key(cfg: DictConfig, key: str, value: str) -> str | None:
    """Change a configuration and check it; return the key of the error, None if it is accepted."""
    override = OverridesParser.create().parse_override(f"{key}={'' if value == '<blank>' else value}")
    try:
        OmegaConf.update(cfg, key, override.value())
    except OmegaConfBaseException as error:
        return str(error.full_key)
    try:
        cfg = check_config(cfg)
        check_trainer(cfg.trainer, decide(cfg.trainer), cfg.data.batch_size)
        build_parts(RunFolder(Path("run")), cfg)
    except UserError as error:
        assert "\n" not in str(error)
        return error.key
    return None


IN_FAST = 2
"""One row in so many is in the fast tests, since all of them take 40 seconds."""


def test_the_table_is_large() -> None:
    assert len(ROWS) >= 300


@pytest.mark.parametrize(
    ("base", "key", "value"),
    [
        pytest.param(*row, marks=() if number % IN_FAST == 0 else pytest.mark.slow)
        for number, row in enumerate(ROWS)
    ],
)
def test_a_bad_value_is_rejected_by_its_key(
    base: str, key: str, value: str, bases: dict[str, DictConfig]
) -> None:
    found = rejected_key(copy.deepcopy(bases[base]), key, value)
    assert found is not None, "accepted"
    assert found == key or found.startswith((f"{key}.", f"{key}["))


@pytest.mark.parametrize("base", BASES)
def test_the_bases_themselves_are_accepted(base: str, bases: dict[str, DictConfig]) -> None:
    assert rejected_key(copy.deepcopy(bases[base]), "seed", "3") is None
