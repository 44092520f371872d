"""A grid of regression heads on a frozen encoder, trained on one reading of the data."""

from __future__ import annotations

import copy
import json
import logging
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import lightning.pytorch as pl
import numpy as np
import torch
from omegaconf import DictConfig, OmegaConf
from torch import Tensor

from sts_lightning.config.machine import decide, fix_workspace, weights_device
from sts_lightning.data.module import SentenceDataModule
from sts_lightning.data.pair_tables import values_of
from sts_lightning.errors import ConfigError, FinishedRunError
from sts_lightning.evaluation.sts import encode_tables, table_cosines
from sts_lightning.evaluation.vector_cache import CachedVectors
from sts_lightning.losses.siamese import SiameseRegressionLoss
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.models.fingerprint import fingerprint
from sts_lightning.models.freezing import freeze
from sts_lightning.models.loading import build_encoder, edit_and_cut
from sts_lightning.runs.folder import RunFolder
from sts_lightning.runs.lock import locked
from sts_lightning.training.assembly import make_loss, optimization
from sts_lightning.training.head_batch import HeadBatch, PairVectors, fit_heads, pair_batches
from sts_lightning.training.optim import check_optim, check_warmup
from sts_lightning.training.trainer import make_plan
from sts_lightning.workflows.head_cells import Cell
from sts_lightning.workflows.head_report import (
    RESULTS,
    Grid,
    Head,
    Shared,
    head_scores,
    pair_scores,
    write_grid,
)
from sts_lightning.workflows.seen_dev_pairs import describe_seen
from sts_lightning.workflows.validate import build_parts

log = logging.getLogger(__name__)

BLOCK = 20_000
"""Sentences whose vectors are stored together: what a killed grid loses at most."""

PRECISION = "32-true"
"""Precision of the vectors and of the heads."""


def check_cell(cfg: DictConfig) -> None:
    """Reject a run whose vectors change while its head trains, or that trains more than a head.

    Args:
        cfg: Configuration of a run, checked.

    Raises:
        ConfigError: It does; the message names the setting.
    """
    requirements = {
        "freeze": (cfg.freeze == "encoder", "must be encoder: else the vectors change in training"),
        "stages": (not cfg.stages, "must be empty: a grid has one stage"),
        "init_from": (cfg.init_from is None, "must be null: a grid starts from the model's own weights"),
        "regularizer": (not cfg.regularizer, "must be none: it has no effect on a frozen encoder"),
        "companion": (not cfg.companion, "must be none: a regression head takes none"),
        "queue.size": (not cfg.queue.size, "must be 0: a regression head takes no negatives"),
        "resume": (cfg.resume is None, "must be null: the command with the same --to resumes a grid"),
        "plan": (not cfg.plan, "must be false: it lists the jobs of a sweep"),
        "trainer.keep_every": (cfg.trainer.keep_every is None, "must be null: a grid keeps the best heads"),
        "evaluation.untuned": (not cfg.evaluation.untuned, "must be false: an untrained head is no model"),
        "evaluation.rank": (not cfg.evaluation.rank, "must be false: all heads read the same vectors"),
        "callbacks": (not cfg.callbacks, "must be empty: a grid has none"),
        "trainer.extra": (not cfg.trainer.extra, "must be empty: a grid does not use Lightning's Trainer"),
        "trainer.devices": (cfg.trainer.devices == 1, "must be 1: a grid trains in one process"),
        "trainer.precision": (
            cfg.trainer.precision in ("auto", PRECISION),
            f"must be {PRECISION}: the vectors are computed once, so that speed is no reason to round",
        ),
        "evaluation.precision": (
            cfg.evaluation.precision in (None, PRECISION),
            f"must be {PRECISION}: the heads read the vectors in the precision in which they were trained",
        ),
        "prompt.view_templates": (
            not cfg.prompt.get("view_templates"),
            "must be null: a sentence has one vector, whichever view it is in",
        ),
    }
    for key, (holds, reason) in requirements.items():
        if not holds:
            raise ConfigError(f"{key} {reason}.", key=key)
    check_optim(cfg.optim)


def _check_dev(cells: Sequence[Cell]) -> None:
    """Reject seeds that draw other dev pairs from the training pairs than the first one."""
    first = cells[0]
    for cell in cells:
        if describe_seen(first.name, first.cfg.data, cell.cfg.data) is not None:
            raise ConfigError(
                f"{cell.name} takes other dev pairs from the training pairs than {first.name}, but the heads "
                "of a grid share their data.",
                key="data.seed",
                hint="Set data.seed=0, give dev pairs (data.dev_path), or run the command for each seed.",
            )


def train_heads(cells: Sequence[Cell], folder: Path) -> Grid:
    """Train and score all heads, and write each as a finished run.

    The vectors of all sentences are computed once, and stored in the folder as they come: a grid that was
    stopped encodes no sentence again. The heads with equal batches and updates train together, on the CPU.
    Each has the initial weights, batches and updates of the run of ``train.py`` with its configuration.

    Args:
        cells: Heads of the grid, which differ in seed, loss and optimiser alone.
        folder: Folder to write, which holds no finished grid.

    Raises:
        FinishedRunError: The folder holds a finished grid.
        UserError: A configuration, the model or the data cannot be used.
    """
    for cell in cells:
        check_cell(cell.cfg)
    _check_dev(cells)
    if (folder / RESULTS).exists():
        raise FinishedRunError(f"{folder / RESULTS} exists already; choose another folder with --to.")
    cfg, aggregate = cells[0].cfg, cells[0].cfg.evaluation.aggregate
    with locked(folder):
        times = [time.monotonic()]
        data = build_parts(RunFolder(folder), cfg).data
        data.setup()
        shared, losses = build_heads(cells, data)
        times.append(time.monotonic())
        own = folder / "vectors" / fingerprint(shared.encoder)[:16]
        pairs = encode_pairs(shared.encoder, data, own)
        vectors = encode_tables(CachedVectors(shared.encoder, own / "evaluation"), shared.tables)
        times.append(time.monotonic())
        courses = _train(cells, losses, pairs, shared)
        times.append(time.monotonic())
        cosines = table_cosines(vectors, shared.tables)
        heads = [
            Head(cell, loss, course, head_scores(shared, vectors, loss, aggregate))
            for cell, loss, course in zip(cells, losses, courses, strict=True)
        ]
        times.append(time.monotonic())
        parts = zip(("read", "encode", "train", "score"), np.diff(times).tolist(), strict=True)
        seconds = {name: round(duration, 2) for name, duration in parts}
        grid = Grid(heads, pair_scores(shared, cosines, aggregate), cosines, seconds)
        write_grid(grid, shared, folder)
    return grid


def build_heads(
    cells: Sequence[Cell], data: SentenceDataModule
) -> tuple[Shared, list[SiameseRegressionLoss]]:
    """Build the encoder, and the loss of each head with random numbers drawn as in `build_experiment`.

    Args:
        cells: Heads of the grid.
        data: Their data.

    Raises:
        ConfigError: A loss has no regression head, or the encoder depends on the seed.
    """
    cfg = cells[0].cfg
    machine = replace(decide(cfg.trainer), precision=PRECISION)
    fix_workspace(machine)
    drawn: dict[int, Tensor] = {}
    encoders: dict[str, SentenceEncoder] = {}
    losses = []
    for seed, loss in ((cell.cfg.seed, cell.cfg.loss) for cell in cells):
        if seed not in drawn:
            pl.seed_everything(seed, workers=True, verbose=False)
            encoder = build_encoder(cfg.model, cfg.prompt, weights_device(machine))
            drawn[seed] = torch.get_rng_state()
            freeze(encoder, cfg.freeze)
            edit_and_cut(encoder, cfg.evaluation.text_edit, cfg.evaluation.max_length)
            encoders[fingerprint(encoder)] = encoder
        torch.set_rng_state(drawn[seed])
        losses.append(_regression(make_loss(loss, encoder.dimension, data.top_label)))
    if len(encoders) > 1:
        raise ConfigError(
            "seed: the model has weights that the seed draws, so that each seed has other vectors.",
            key="seed",
            hint="Train one grid for each seed.",
        )
    encoder = encoder.to(weights_device(machine)).eval()
    data.connect(*(encoder.prepare(machine.chunk_tokens, training=training) for training in (True, False)))
    plan = make_plan(cfg.trainer, len(data.train_dataloader()))
    return Shared(encoder, data, data.tests if cfg.evaluation.final else [], machine, plan), losses


def _regression(loss: object) -> SiameseRegressionLoss:
    if not isinstance(loss, SiameseRegressionLoss):
        raise ConfigError(
            f"loss: {type(loss).__name__} is no regression with a linear head.",
            key="loss",
            hint="Choose l1, mse, smooth_k2 or translated_relu.",
        )
    return loss


class _TrainingText:
    """An encoder that reads sentences as in training."""

    def __init__(self, encoder: SentenceEncoder) -> None:
        self.encoder = encoder

    def encode(self, sentences: Sequence[str], /) -> np.ndarray:
        """Return vectors of shape (len(sentences), D)."""
        return self.encoder.encode(sentences, as_trained=True)


def encode_pairs(encoder: SentenceEncoder, data: SentenceDataModule, folder: Path) -> PairVectors:
    """Compute the vectors of the distinct sentences of the training pairs, or look them up in a folder.

    Args:
        encoder: Frozen encoder.
        data: Training pairs.
        folder: Folder of this encoder's vectors.
    """
    columns = [values_of(data.train, name) for name in ("sentence1", "sentence2")]
    texts = list(dict.fromkeys(text for column in columns for text in column))
    index = {text: row for row, text in enumerate(texts)}
    rows = encoder.tokenizer
    own = folder / f"training-{rows.max_length}-{rows.denoise}"
    cached = CachedVectors(_TrainingText(encoder), own)
    vectors = np.concatenate([cached.encode(texts[at : at + BLOCK]) for at in range(0, len(texts), BLOCK)])
    log.info(
        "%s distinct sentences of %s pairs, %s of them encoded now",
        f"{len(texts):,}",
        f"{len(data.train):,}",
        f"{cached.encoded:,}",
    )
    kind = torch.float32 if data.label == "score" else torch.int64
    return PairVectors(
        torch.from_numpy(vectors),
        torch.tensor([[index[text] for text in column] for column in columns]),
        torch.tensor(values_of(data.train, "label"), dtype=kind),
    )


def _together(cfg: DictConfig) -> str:
    """Return what the heads that train together have in common: all but k and x0."""
    rule = {key: value for key, value in cfg.loss.items() if key not in ("k", "x0")}
    return json.dumps([cfg.seed, rule, OmegaConf.to_container(cfg.optim)])


def _train(
    cells: Sequence[Cell], losses: Sequence[SiameseRegressionLoss], pairs: PairVectors, shared: Shared
) -> list[np.ndarray]:
    """Train the heads of the losses; return the course of each loss."""
    groups: dict[str, list[int]] = {}
    for number, cell in enumerate(cells):
        groups.setdefault(_together(cell.cfg), []).append(number)
    courses: dict[int, np.ndarray] = {}
    plan, shares = shared.plan, shared.data.shares
    for members in groups.values():
        cfg = cells[members[0]].cfg
        check_warmup(cfg.optim.warmup, round(cfg.optim.stretch * plan.total_steps))
        optim = copy.deepcopy(cfg.optim)
        optim.layer_decay = 1.0  # it lowers the rates below a head only
        heads = HeadBatch([losses[number] for number in members])
        batches = pair_batches(shares, cfg.data.seed, cfg.data.batch_size, plan)
        clip = cfg.trainer.gradient_clip_val
        course = fit_heads(heads, pairs, batches, *optimization(optim, PRECISION, plan), clip)
        for row, number in enumerate(members):
            heads.copy_to(row, losses[number])
            courses[number] = course[:, row].numpy()
    log.info("%d heads, %d steps each, in %d batches of heads", len(cells), plan.total_steps, len(groups))
    return [courses[number] for number in range(len(cells))]
