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

from torch import Tensor

from sts_lightning.config.build import build
from sts_lightning.config.constraints import check_config
from sts_lightning.data.module import SentenceDataModule
from sts_lightning.evaluation.dev_scores import MONITOR
from sts_lightning.files import new_folder, write_atomic
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.models.loading import load_from, load_part
from sts_lightning.models.weight_sum import Weights, weighted_sum
from sts_lightning.runs.calibration_file import fingerprint
from sts_lightning.runs.environment import environment
from sts_lightning.runs.folder import RunFolder
from sts_lightning.runs.metrics import RunMetrics, as_plain
from sts_lightning.runs.predictions import save_predictions
from sts_lightning.workflows.scoring import Scores, score
from sts_lightning.workflows.soup_parents import ENCODER, Parent, mean_encoder, mean_head, mean_start
from sts_lightning.workflows.wise_ft import dev_of_weights

log = logging.getLogger(__name__)


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
        """The candidate with the best dev score, the last of equal ones, as the greedy search keeps it."""
        return max(reversed(self.tried), key=lambda candidate: candidate.dev)


def make_soup(
    parents: Sequence[Parent], folder: Path, greedy: bool = False, alphas: Sequence[float] = ()
) -> Soup:
    r"""Average the weights of runs and write the result as a finished run.

    The uniform average takes every run (Wortsman et al. 2022, "Model soups"). The greedy one takes the runs
    in the order of their dev scores and keeps each if the average with it is no worse on dev. ``alphas`` move
    the average towards the weights that the runs started from (Wortsman et al. 2022, "Robust fine-tuning of
    zero-shot models", WiSE-FT):

    .. math:: \theta = (1 - \alpha)\, \theta_0 + \alpha\, \bar\theta

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
    data: SentenceDataModule = build("data", check_config(first.cfg).data, SentenceDataModule)
    data.setup()
    encoder = load_from(first.run, first.cfg).eval()
    soup = Soup([_dev(encoder, data, first, parent.encoder(), parent.run.name) for parent in parents])
    members = _select(soup, parents, encoder, data, greedy)
    if alphas:
        chosen = [parents[number] for number in members]
        average, start = mean_encoder(chosen), mean_start(chosen)
        for alpha in alphas:
            mixed = weighted_sum([start, average], [1 - alpha, alpha])
            dev = _dev(encoder, data, first, mixed, f"{alpha:g} of the average, {1 - alpha:g} of the start")
            soup.tried.append(Candidate(members, alpha, dev))
    weights = _weights([parents[number] for number in soup.best.members], soup.best.alpha)
    load_part(encoder, ENCODER, {"state_dict": weights}, folder)
    with new_folder(folder) as inside:
        _write(RunFolder(inside), parents, soup, weights, encoder, data, started)
    return soup


def _dev(
    encoder: SentenceEncoder, data: SentenceDataModule, first: Parent, weights: Weights, name: str
) -> float:
    """Score encoder weights on the dev pairs, and log it."""
    dev = dev_of_weights(encoder, weights, data, first.cfg.evaluation, first.run)
    log.info("%s: dev Spearman %.2f", name, dev)
    return dev


def _select(
    soup: Soup, parents: Sequence[Parent], encoder: SentenceEncoder, data: SentenceDataModule, greedy: bool
) -> tuple[int, ...]:
    """Score the average of all runs, or those of the greedy search; return the members of the one kept."""
    everyone = tuple(range(len(parents)))
    if len(parents) == 1:
        soup.tried.append(Candidate(everyone, 1.0, soup.singles[0]))
        return everyone
    if not greedy:
        average = mean_encoder(parents)
        dev = _dev(encoder, data, parents[0], average, f"average of {len(parents)} runs")
        soup.tried.append(Candidate(everyone, 1.0, dev))
        return everyone
    order = sorted(everyone, key=lambda number: -soup.singles[number])
    kept = Candidate((order[0],), 1.0, soup.singles[order[0]])
    soup.tried.append(kept)
    for number in order[1:]:
        members = (*kept.members, number)
        average = mean_encoder([parents[other] for other in members])
        dev = _dev(encoder, data, parents[0], average, f"average of {len(members)} runs")
        soup.tried.append(Candidate(members, 1.0, dev))
        if dev >= kept.dev:
            kept = soup.tried[-1]
    return kept.members


def _weights(chosen: Sequence[Parent], alpha: float) -> dict[str, Tensor]:
    """Return the weights of a candidate, with the mean of the heads if all runs have the same ones."""
    weights = mean_encoder(chosen)
    if alpha < 1:
        weights = weighted_sum([mean_start(chosen), weights], [1 - alpha, alpha])
    return weights | mean_head(chosen)


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
    if cfg.evaluation.final:
        log.info("evaluating the best on the test tasks")
    scores = score(encoder, data, cfg.evaluation)
    run.save_config(cfg)
    content = {"state_dict": weights, "global_step": step, "epoch": 0}
    run.write_checkpoint("best", content)
    run.write_checkpoint("last", content)
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
    """Return the details of the results, which are all but the scores."""
    best, cfg = soup.best, parents[0].cfg
    trained_on = []
    for number in best.members:
        trained_on += [stage for stage in parents[number].run.trained_on() if stage not in trained_on]
    members = [
        {
            "run": parent.run.name,
            "fingerprint": fingerprint(parent.run),
            "dev": dev,
            "averaged": number in best.members,
        }
        for number, (parent, dev) in enumerate(zip(parents, soup.singles, strict=True))
    ]
    return {
        "soup": {"parents": members, "alpha": best.alpha},
        "best_step": soup.tried.index(best) + 1,
        "seed": cfg.seed,
        "precision": encoder.precision,
        "quantization": cfg.model.get("quantization", "none"),
        **encoder.evaluation_text,
        "senteval_text": data.text,
        "data": [dataclasses.asdict(count) | {"kept": count.kept} for count in data.counts],
        "trained_on": as_plain(tuple(trained_on)),
        "earlier": list({cost["run"]: cost for parent in parents for cost in parent.run.costs()}.values()),
        **({} if scores.ranks is None else {"rank": scores.ranks}),
        **environment(),
    }
