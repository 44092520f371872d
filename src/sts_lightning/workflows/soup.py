"""Averages of the weights of runs, as a run folder of their own."""

from __future__ import annotations

import copy
import csv
import dataclasses
import io
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from omegaconf import DictConfig, OmegaConf
from torch import Tensor

from sts_lightning.config.build import build
from sts_lightning.config.constraints import check_config
from sts_lightning.config.trust import Trust
from sts_lightning.data.module import SentenceDataModule
from sts_lightning.errors import CheckpointError
from sts_lightning.files import replacing, write_atomic
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.models.loading import build_encoder, load_from, load_part
from sts_lightning.models.weight_sum import Weights, weighted_sum
from sts_lightning.runs.environment import environment
from sts_lightning.runs.folder import RunFolder
from sts_lightning.runs.lock import locked
from sts_lightning.runs.metrics import RunMetrics, as_plain
from sts_lightning.runs.predictions import save_predictions
from sts_lightning.training.module import MONITOR
from sts_lightning.workflows.report import Scores, score

log = logging.getLogger(__name__)

ENCODER = "encoder."
"""Prefix of the names of the encoder's weights in a checkpoint."""


@dataclass(frozen=True)
class Parent:
    """A run whose weights are averaged.

    Attributes:
        run: Its folder; of a run of several stages, that of the last one.
        cfg: Its configuration.
        weights: The weights of its best dev score, of the encoder and of the head of its loss.
    """

    run: RunFolder
    cfg: DictConfig
    weights: Weights

    def encoder(self) -> dict[str, Tensor]:
        """Return the weights of the encoder by their names in the checkpoint."""
        return {name: value for name, value in self.weights.items() if name.startswith(ENCODER)}


@dataclass(frozen=True)
class Candidate:
    """Weights that were scored on the dev pairs.

    Attributes:
        members: Positions of the runs in the average.
        alpha: Share of the average; the rest is the start of the runs.
        dev: Spearman correlation on the dev pairs, times 100.
    """

    members: tuple[int, ...]
    alpha: float
    dev: float


@dataclass
class Soup:
    """What has been tried.

    Attributes:
        singles: Dev score of each run by itself.
        tried: Candidates in the order in which they were scored.
    """

    singles: list[float] = field(default_factory=list)
    tried: list[Candidate] = field(default_factory=list)

    @property
    def best(self) -> Candidate:
        """The candidate with the best dev score, the first of equal ones."""
        return max(self.tried, key=lambda candidate: candidate.dev)


def read_parents(folders: Sequence[Path], trust: Trust) -> list[Parent]:
    """Read the runs to average, and check that their average is a model of the same kind.

    Args:
        folders: Run folders.
        trust: What their configurations may ask for.

    Raises:
        CheckpointError: A folder is no run, has an adapter, or another model or prompt than the first one.
    """
    parents: list[Parent] = []
    for folder in folders:
        run = RunFolder(folder).last_stage()
        cfg = run.load_config(trust)
        if "loss" not in cfg or "data" not in cfg:
            raise CheckpointError(f"{run.name} is an evaluation, which has no weights of its own.")
        if cfg.model.get("adapter") is not None:
            raise CheckpointError(
                f"{run.name} has an adapter ({cfg.model.adapter._target_}). The mean of the factors of LoRA is "
                "not the mean of their products, so an average of adapters is no average of models.",
                hint="Average runs that train all weights.",
            )
        checkpoint = run.read_checkpoint("best", mmap=True)["state_dict"]
        weights = {name: value for name, value in checkpoint.items() if name.startswith((ENCODER, "loss."))}
        if not any(name.startswith(ENCODER) for name in weights):
            raise CheckpointError(f"{run.name} did not train its encoder (freeze={cfg.get('freeze')}).")
        parents.append(Parent(run, cfg, weights))
        _check_same(parents[0], parents[-1])
    return parents


def _check_same(first: Parent, other: Parent) -> None:
    """Reject a run that computes its vectors in another way; dropout has no part in them."""
    for group in ("model", "prompt"):
        one, two = (OmegaConf.to_container(parent.cfg[group], resolve=True) for parent in (first, other))
        assert isinstance(one, dict)
        assert isinstance(two, dict)
        for key in sorted({*one, *two} - {"dropout"}, key=str):
            if one.get(key) != two.get(key):
                raise CheckpointError(
                    f"{other.run.name} has {group}.{key}={two.get(key)}, but {first.run.name} has "
                    f"{one.get(key)}; only runs of the same model can be averaged."
                )


def make_soup(
    parents: Sequence[Parent], folder: Path, greedy: bool = False, alphas: Sequence[float] = ()
) -> Soup:
    """Average the weights of runs and write the result as a finished run.

    The uniform average takes every run (Wortsman et al. 2022, "Model soups"). The greedy one takes the runs in
    the order of their dev scores and keeps each if the average with it is no worse on dev. ``alphas`` move the
    average towards the weights that the runs started from (Wortsman et al. 2022, "Robust fine-tuning of
    zero-shot models", WiSE-FT):

    .. math:: \\theta = (1 - \\alpha)\\, \\theta_0 + \\alpha\\, \\bar\\theta

    The best of these and of the average itself is selected by dev. The dev pairs, and the test tasks of the
    report, are those of the first run.

    Args:
        parents: Runs to average.
        folder: Folder to write, which must not exist.
        greedy: Whether to select runs by dev score.
        alphas: Shares of the average in [0, 1] to try besides 1.

    Returns:
        What was tried.

    Raises:
        UserError: Weights do not fit each other, or data or model cannot be read.
    """
    started = time.monotonic()
    first = parents[0]
    data: SentenceDataModule = build("data", check_config(first.cfg).data)
    data.setup()
    encoder = load_from(first.run, first.cfg).eval()
    soup = Soup([_dev(encoder, data, first, parent.encoder()) for parent in parents])
    members = _select(soup, parents, encoder, data, greedy)
    if alphas:
        average, start = _mean(parents, members), _mean_start(parents, members)
        for alpha in alphas:
            dev = _dev(encoder, data, first, weighted_sum([start, average], [1 - alpha, alpha]))
            soup.tried.append(Candidate(members, alpha, dev))
    weights = _weights(parents, soup.best)
    load_part(encoder, ENCODER, {"state_dict": weights}, folder)
    with locked(folder):
        _write(RunFolder(folder), parents, soup, weights, encoder, data, started)
    return soup


def _dev(encoder: SentenceEncoder, data: SentenceDataModule, first: Parent, weights: Weights) -> float:
    """Score encoder weights on the dev pairs."""
    load_part(encoder, ENCODER, {"state_dict": weights}, first.run.checkpoint("best"))
    evaluation = copy.deepcopy(first.cfg.evaluation)
    evaluation.final = False
    return score(encoder, data, evaluation).dev["spearman"]


def _select(
    soup: Soup, parents: Sequence[Parent], encoder: SentenceEncoder, data: SentenceDataModule, greedy: bool
) -> tuple[int, ...]:
    """Score the average of all runs, or those of the greedy search; return the members of the last one kept."""
    everyone = tuple(range(len(parents)))
    if len(parents) == 1:
        soup.tried.append(Candidate(everyone, 1.0, soup.singles[0]))
        return everyone
    if not greedy:
        dev = _dev(encoder, data, parents[0], _mean(parents, everyone))
        soup.tried.append(Candidate(everyone, 1.0, dev))
        return everyone
    order = sorted(everyone, key=lambda number: -soup.singles[number])
    kept = Candidate((order[0],), 1.0, soup.singles[order[0]])
    soup.tried.append(kept)
    for number in order[1:]:
        members = (*kept.members, number)
        dev = _dev(encoder, data, parents[0], _mean(parents, members))
        soup.tried.append(Candidate(members, 1.0, dev))
        if dev >= kept.dev:
            kept = soup.tried[-1]
    return kept.members


def _mean(parents: Sequence[Parent], members: Sequence[int]) -> dict[str, Tensor]:
    """Average the encoders of some runs."""
    chosen = [parents[number] for number in members]
    try:
        return weighted_sum([parent.encoder() for parent in chosen], [1 / len(chosen)] * len(chosen))
    except ValueError as error:
        names = ", ".join(parent.run.name for parent in chosen)
        raise CheckpointError(f"{names} cannot be averaged: {error}.") from error


def _mean_start(parents: Sequence[Parent], members: Sequence[int]) -> dict[str, Tensor]:
    """Average what some runs started from, usually the same weights."""
    starts = [_start(parents[number]) for number in members]
    return weighted_sum(starts, [1 / len(starts)] * len(starts))


def _start(parent: Parent) -> dict[str, Tensor]:
    """Return the encoder's weights before the run, by their names in its checkpoint."""
    cfg = parent.cfg
    with torch.random.fork_rng(devices=[]):  # weights that no file has, as those of a projection
        torch.manual_seed(cfg.seed)
        encoder = build_encoder(cfg.model, cfg.prompt)
    if cfg.init_from is not None:
        earlier = RunFolder(cfg.init_from).last_stage()
        kind: Any = "best" if cfg.init == "best" else "last"
        load_part(encoder, ENCODER, earlier.read_checkpoint(kind), earlier.checkpoint(kind))
    whole = {ENCODER + name: value for name, value in encoder.state_dict().items()}
    return {name: whole[name] for name in parent.encoder()}


def _weights(parents: Sequence[Parent], best: Candidate) -> dict[str, Tensor]:
    """Return the weights of a candidate, with the mean of the heads if all runs have the same ones."""
    weights = _mean(parents, best.members)
    if best.alpha < 1:
        start = _mean_start(parents, best.members)
        weights = weighted_sum([start, weights], [1 - best.alpha, best.alpha])
    chosen = [parents[number] for number in best.members]
    heads = [
        {name: value for name, value in parent.weights.items() if not name.startswith(ENCODER)}
        for parent in chosen
    ]
    shapes = [{name: value.shape for name, value in head.items()} for head in heads]
    if all(shape == shapes[0] for shape in shapes):
        weights |= weighted_sum(heads, [1 / len(heads)] * len(heads))
    return weights


def _write(
    run: RunFolder,
    parents: Sequence[Parent],
    soup: Soup,
    weights: dict[str, Tensor],
    encoder: SentenceEncoder,
    data: SentenceDataModule,
    started: float,
) -> None:
    """Write what a finished run has; its steps are the candidates, in the order in which they were scored."""
    cfg = copy.deepcopy(parents[0].cfg)
    cfg.name = run.path.name
    step = soup.tried.index(soup.best) + 1
    scores = score(encoder, data, cfg.evaluation)
    run.save_config(cfg)
    run.checkpoints.mkdir()
    for which in ("best", "last"):
        with replacing(run.checkpoint(which)) as temporary:
            torch.save({"state_dict": weights, "global_step": step, "epoch": 0}, temporary)
    _write_history(run, soup)
    if scores.test is not None:
        save_predictions(run, data.tests, scores.test_cosines)
    dev = {**scores.dev} if scores.binary is None else {**scores.dev, "binary": scores.binary}
    details = _details(parents, soup, scores, encoder, data)
    details["wall_seconds"] = round(time.monotonic() - started, 1)
    run.save_metrics(RunMetrics(scores.test, dev, details))  # last, since it marks the run as finished


def _write_history(run: RunFolder, soup: Soup) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["step", MONITOR, "soup/runs", "soup/alpha"])
    for step, candidate in enumerate(soup.tried, 1):
        writer.writerow([step, candidate.dev, len(candidate.members), candidate.alpha])
    write_atomic(run.history_file, text.getvalue())


def _details(
    parents: Sequence[Parent], soup: Soup, scores: Scores, encoder: SentenceEncoder, data: SentenceDataModule
) -> dict[str, Any]:
    """Return the entries of metrics.json besides the scores."""
    best, cfg = soup.best, parents[0].cfg
    trained_on = []
    for number in best.members:
        trained_on += [stage for stage in parents[number].run.trained_on() if stage not in trained_on]
    members = [
        {"run": parent.run.name, "dev": dev, "averaged": number in best.members}
        for number, (parent, dev) in enumerate(zip(parents, soup.singles, strict=True))
    ]
    return {
        "soup": {"parents": members, "alpha": best.alpha},
        "best_step": soup.tried.index(best) + 1,
        "steps": len(soup.tried),
        "seed": cfg.seed,
        "precision": encoder.precision,
        "quantization": cfg.model.get("quantization", "none"),
        **encoder.evaluation_text,
        "senteval_text": data.text,
        "data": [dataclasses.asdict(count) | {"kept": count.kept} for count in data.counts],
        "trained_on": as_plain(tuple(trained_on)),
        "earlier": [cost for parent in parents for cost in parent.run.costs()],
        **({} if scores.ranks is None else {"rank": scores.ranks}),
        **environment(),
    }
