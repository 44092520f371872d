"""Finished runs with weights of their own, without training."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from scipy import stats

from sts_lightning.config.check import check_config
from sts_lightning.evaluation.encoding import score_pairs
from sts_lightning.models.loading.folder import write_model
from sts_lightning.models.loading.run import build_encoder
from sts_lightning.runs.folder import RunFolder
from sts_lightning.runs.metrics import RunMetrics
from sts_lightning.training.assembly import make_data
from tests.support.run_entries import edit, write_finished


def write_run(
    folder: Path, noise: float, seed: int, changed: Mapping[str, Mapping[str, Any]] | None = None
) -> Path:
    """Write a run whose best weights are those of the model plus noise, with other settings by group."""
    write_finished(folder)
    run = RunFolder(folder)
    for group, settings in (changed or {}).items():
        edit(run.config_file, lambda cfg, group=group, settings=settings: cfg[group].update(settings))
    generator, cfg = torch.Generator().manual_seed(seed), run.load_config()
    encoder = build_encoder(cfg.model, cfg.prompt)
    for parameter in encoder.parameters():
        parameter.data += noise * torch.randn(parameter.shape, generator=generator)
    write_model(encoder, run.model(), step=2)
    counted = {"source": "toy", "unit": "pairs", "rows": 32, "published": None, "dropped": {}}
    details = {"trained_on": [counted], "wall_seconds": 10.0}
    run.save_metrics(RunMetrics(None, {"spearman": 50.0, "pearson": 50.0, "pairs": 40}, details))
    return folder


def dev_of(run: Path, changed: dict[str, torch.Tensor]) -> float:
    """Spearman on the dev pairs of a run with other weights."""
    cfg = check_config(RunFolder(run).load_config())
    data = make_data(cfg)
    data.setup()
    encoder = build_encoder(cfg.model, cfg.prompt).eval()
    plain = {name.removeprefix("encoder."): value for name, value in changed.items()}
    encoder.load_state_dict(plain, strict=False)
    cosines = score_pairs(encoder, data.dev["sentence1"], data.dev["sentence2"])
    return 100 * float(stats.spearmanr(cosines, data.dev["label"]).statistic)
