"""Bad values of every setting: each is rejected, and the error names the setting.

A configuration is composed once for each group of settings and changed as Hydra changes it. The checks of a
run follow up to the point at which data are read.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator

import pytest
from hydra import compose, initialize_config_dir
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from sts_lightning.config.check import check_config
from sts_lightning.core.errors import UserError
from sts_lightning.core.hardware import resolve_machine
from sts_lightning.training.assembly import assemble
from sts_lightning.workflows.preflight import check_components, check_machine
from tests.conftest import CONF, SHORT_RUN
from tests.support.parts import losses, part

TRIPLETS = ["loss=infonce", "data.kind=triplets"]
SENTENCES = ["loss=infonce", "data.kind=sentences", "data.repetition=0.2"]
MIX = ["loss=mix", "+loss.terms.a._target_=sts_lightning.losses.pearson.PearsonLoss", "+loss.weights.a=1"]
MATRYOSHKA = ["loss=matryoshka", "+loss.inner._target_=sts_lightning.losses.spearman.SpearmanLoss"]
MATRYOSHKA += ["+loss.inner.temperature=0.2", "loss.dimensions=[32,16]", "loss.weights=[1.0,1.0]"]

BASES: dict[str, list[str]] = {
    "pairs": [],
    "triplets": [*TRIPLETS, "auxiliary=momentum_queue"],
    "sentences": SENTENCES,
    "rank": ["regularizer=rank_reduction", "callbacks=rank_monitor"],
    "decoder": ["model=tiny_mistral", "prompt=eol"],
    "mix": MIX,
    **{name: [f"loss={name}"] for name in ("angle", "cosent", "ibn", "l1", "smooth_k2", "spearman")},
    **{name: [f"loss={name}"] for name in ("listnet", "rank_kl", "pro", "bixse")},
    **{name: [f"loss={name}", "data.kind=triplets"] for name in ("gist", "hardness", "sigmoid")},
    "matryoshka": MATRYOSHKA,
    "vectors": ["loss=vector_distillation", "auxiliary=teacher_vectors", "auxiliary.sources=[x]"],
    "divided": ["loss=divided", "+loss.inner._target_=sts_lightning.losses.cosent.CoSENTLoss"],
    "orthogonal": ["regularizer=global_orthogonal"],
    "alignment": ["regularizer=alignment"],
    "decoupled": ["loss=decoupled", "data.kind=triplets"],
    "energy": ["loss=energy", "data.kind=triplets"],
    "mixcse": ["loss=mixcse", "data.kind=sentences"],
    "file": ["data=pairs_file", "path=mine.csv"],
    "joint": [
        "data=joint",
        *part("nli", "toy", kind="triplets"),
        *part("sts", "toy"),
        *losses(nli="infonce", sts="pearson"),
    ],
}
"""Overrides of each base, besides a short run of pairs."""

OTHER_DATA = ("file", "joint")

VALUES: dict[str, dict[str, str]] = {
    "pairs": {
        "seed": "null fast -1",
        "path": "'' [] ${nope} mine.csv",
        "init_from": "{a:1}",
        "optim.freeze": "encoder",
        "model": "null 5 ${nope}",
        "regularizer": "x",
        "data.kind": "nonsense",
        "data.batch_size": "null fast nan 0 2000000",
        "data.train_size": "1",
        "optim.betas": "[0.9] [0.9,1]",
        "optim.lr": "nan 0",
        "optim.warmup": "1.0 x",
        "evaluation.precision": "16-mixed",
        "trainer.devices": "-2 -1",
        "trainer.val_every": "1.5 true",
        "trainer.wise_ft": "0.5 [0.5,1.1]",
        "trainer.deterministic": "null maybe",
        "trainer.micro_batch_size": "fast []",
        "auxiliary": "${seed}",
        "logger": "5",
        "logger.tensorboard.name": "true",
    },
    "triplets": {
        "loss.positive_negatives": "yes",
        "loss.temperature": "null nan 0",
        "auxiliary.size": "-1 0 100000000",
        "auxiliary.momentum": "-1 1",
    },
    "sentences": {
        "data.views": "0 4",
        "data.repetition": "-1 2",
    },
    "rank": {
        "regularizer.coefficient": "-1",
        "callbacks.rank_monitor": "null 5",
        "callbacks.rank_monitor.every": "fast 0",
        "callbacks.rank_monitor.pairs": "1",
        "callbacks.rank_monitor.fraction": "0 2",
    },
    "decoder": {"model.adapter.r": "fast"},
    "mix": {
        "loss.terms.a": "${nope}",
        "loss.weights.a": "${nope}",
        "loss.weights": "{a:nan}",
    },
    "joint": {
        "data.shares": "{nli:1} {nli:0,sts:1} {nli:-1,sts:1}",
        "data.dev_part": "nil",
        "data.batch_size": "0",
        "data.parts.nli": "nli_tripletz {data:toy,kind:none}",
        "data.parts.nli.batch_size": "0",
        "loss.parts.sts": "pearsson {loss:infonce,temprature:1} {scale:3}",
    },
    "angle": {"loss.scale": "0"},
    "cosent": {"loss.scale": "0"},
    "ibn": {
        "loss.scale": "-20",
        "loss.positive_from": "0 6",
    },
    "l1": {"loss.spacing": "0"},
    "smooth_k2": {"loss.k": "0"},
    "spearman": {"loss.temperature": "0"},
    "listnet": {
        "loss.scale": "0",
        "loss.score_temperature": "0",
    },
    "rank_kl": {"loss.temperature": "0"},
    "pro": {"loss.temperature": "0"},
    "bixse": {"loss.scale": "0"},
    "gist": {"loss.margin": "2 -2"},
    "hardness": {
        "loss.hardness": "-1",
        "loss.prior": "-0.1 1",
    },
    "sigmoid": {"loss.scale": "0"},
    "vectors": {
        "loss.teacher_dimension": "0",
        "auxiliary.weights": "[] [1,2] [0] [nan] fast",
        "auxiliary.precision": "bf16-mixed auto",
        "auxiliary.cache_dir": "[]",
    },
    "divided": {"loss.shards": "0"},
    "matryoshka": {
        "loss.inner.temperature": "0",
        "loss.dimensions": "null [] 5 [32,32] [0] [1.5] [1000000]",
        "loss.weights": "[0,0] [1,-1] [1,nan]",
    },
    "orthogonal": {"regularizer.coefficient": "-1"},
    "decoupled": {"loss.uniformity_weight": "-1"},
    "energy": {"loss.margin": "-0.2"},
    "mixcse": {"loss.mix": "-1 2"},
    "file": {
        "path": "null [] 5 {} {a:0} {a:x} [a,a]",
        "data.columns": "null 5 [a,b] [a,a,b]",
        "data.score_range": "'' [0] [0,inf] [5,0] [1,1] [low,high] 5",
        "data.dev_fraction": "0 1",
    },
}
"""Bad values of each setting, with the base that has it: one for each check."""

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
        own = ["model=tiny_bert", "precision=32-true", "name=test"]
        yield {
            base: compose("train", [*(own if base in OTHER_DATA else run), *overrides])
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
        check_machine(resolve_machine(cfg))
        check_components(assemble(cfg, "meta"))
    except UserError as error:
        assert "\n" not in str(error)
        return error.key
    return None


@pytest.mark.parametrize(("base", "key", "value"), ROWS)
def test_a_bad_value_is_rejected_by_its_key(
    base: str, key: str, value: str, bases: dict[str, DictConfig]
) -> None:
    found = rejected_key(copy.deepcopy(bases[base]), key, value)
    assert found is not None, "accepted"
    assert not found or found == key or found.startswith((f"{key}.", f"{key}["))  # OmegaConf may name none


@pytest.mark.parametrize("base", BASES)
def test_the_bases_themselves_are_accepted(base: str, bases: dict[str, DictConfig]) -> None:
    assert rejected_key(copy.deepcopy(bases[base]), "seed", "3") is None
