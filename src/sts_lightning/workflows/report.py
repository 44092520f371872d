"""The end of a training run: the selected weights scored, results and plots written."""

from __future__ import annotations

import base64
import dataclasses
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pkgutil import resolve_name
from typing import Any

from jinja2 import Environment, PackageLoader
from lightning.pytorch.loggers import Logger, TensorBoardLogger

from sts_lightning.config.check import format_value
from sts_lightning.config.identity import SHOWN, leaves, select
from sts_lightning.core.console import print_scores
from sts_lightning.core.files import write_atomic
from sts_lightning.data.module import DataModule
from sts_lightning.data.ranking import Ranking
from sts_lightning.data.readers.sts_sets import SEVEN_TASKS, STSTask
from sts_lightning.data.tasks import scored_tasks
from sts_lightning.evaluation.dev_scores import monitor_of, title_of
from sts_lightning.evaluation.disagreements import Disagreement, find_disagreements
from sts_lightning.evaluation.retrieval import TITLES, print_rankings, ranking_cells
from sts_lightning.evaluation.score import Scores, how_scored, score_data, title_of_table
from sts_lightning.evaluation.sts import describe_binary, spearman_row
from sts_lightning.evaluation.verdict import Verdict, compare_tasks, in_words, verdict_of
from sts_lightning.models.loading.checks import check_weights
from sts_lightning.models.loading.folder import write_model
from sts_lightning.runs.folder import RunFolder
from sts_lightning.runs.metrics import RunMetrics, TrainedOn, origin
from sts_lightning.runs.predictions import save_dev, save_predictions
from sts_lightning.training.assembly import Experiment
from sts_lightning.training.callbacks.progress import RunClock
from sts_lightning.workflows.average import mix_with_start
from sts_lightning.workflows.plots import plot_cosines, plot_curves

log = logging.getLogger(__name__)

EACH, CUT = 5, 1000
"""Number of texts of a column that an export is compared with, and of their characters that are stored."""

HP_METRIC = "hp_metric"
"""Score that Lightning's logger declares for TensorBoard's table of runs; -1 until the run has finished."""


def report(
    experiment: Experiment, untuned: Scores | None, peak_memory: dict[str, int], clock: RunClock
) -> float:
    """Score the selected weights, write predictions, metrics and plots, and print the scores.

    All processes of a run encode; the first one writes.

    Args:
        experiment: The run, trained: its Trainer knows the steps made, fewer than planned where a callback
            ended the run.
        untuned: What `fit` returns.
        peak_memory: What `fit` returns, in bytes.
        clock: Clock of the run.

    Returns:
        Dev Spearman times 100 of the selected weights.
    """
    run, cfg, data = experiment.run, experiment.cfg, experiment.data
    encoder, steps = experiment.module.encoder, experiment.trainer.global_step
    if experiment.first:
        _write_final(experiment)
    checkpoint = run.read_checkpoint("best")
    best_step: int = checkpoint["global_step"]
    check_weights(experiment.module.state_dict(), checkpoint["state_dict"], str(run.checkpoint("best")))
    experiment.module.load_state_dict(checkpoint["state_dict"], strict=False)
    encoder.to(experiment.trainer.strategy.root_device)
    wise_ft = cfg.trainer.wise_ft
    mixture = mix_with_start(run, cfg, encoder, data, experiment.first) if wise_ft else {}
    if experiment.first:
        head = experiment.module.loss.state_dict()
        write_model(encoder, run.model(), head, best_step, cfg.evaluation.precision)
    tuned = score_data(encoder, data, cfg.evaluation)
    if not experiment.first:
        return tuned.dev_score
    history, monitor = run.history(), monitor_of(data.dev)
    if tuned.test_found:
        save_predictions(run, data.tests, tuned.test_found)
    if mixture.get("share", 1) < 1:
        save_dev(run, best_step, tuned.dev_found, selected=True)
    watched = [row for row in history if "rank/energy" in row]
    phases = resolve_name("sts_lightning.papers.phases:phases_of")(watched) if watched else None
    verdict = verdict_of(run, best_step)
    worse = None if verdict is None else verdict["difference"] < 0
    general = _general(untuned, tuned) if data.data_set.keep_general else None
    details = {
        "dev_untuned": _before(history).get(monitor),
        **({} if verdict is None else {"verdict": verdict}),
        **({} if general is None else {"general": general}),
        "worse_than_untuned": worse,
        "test_untuned": untuned.test if untuned else None,
        "best_step": best_step,
        "peak_memory_bytes": peak_memory,
        "phases": None if phases is None else dataclasses.asdict(phases),
        **_details(experiment, tuned, clock.seconds),
        **({"wise_ft": mixture} if mixture else {}),
    }
    metrics = RunMetrics(tuned.test, tuned.dev, details)
    # It marks the run as finished: what others read of one, weights and predictions, is there by now. What
    # follows only shows the results, and may fail in other people's code.
    run.save_metrics(metrics)
    if not cfg.trainer.keep_state:
        run.remove_state()
    title = f"{cfg.name}, seed {cfg.seed}"
    with _optional("plots"):
        plot_curves(history, run.plots / "curves.png", best_step, title, (monitor, title_of(monitor)))
        if not isinstance(tuned.dev_found, dict):
            spearman = f"{title}: dev Spearman {tuned.dev_score:.2f}"
            plot_cosines(*tuned.dev_found, run.plots / "dev_cosines.png", spearman)
    with _optional(run.page_file.name):
        write_page(run, metrics, _disagreements(tuned, data), run.settings())
    log_results(experiment.loggers, metrics, steps)
    if verdict and worse:  # even within its interval: training gained nothing, and there is a remedy
        order = ", or the labels are in another order than data.classes"
        classes = any(part.label == "class" for part in data.parts.values())
        log.warning(
            "WARNING: the selected weights are worse than the untuned model: lower optim.lr or train "
            "longer%s; trainer.select_untuned=true would keep the untuned weights.",
            order if classes else "",
        )
    _print_scores(experiment, tuned, untuned, metrics)
    log.info("selected step %d of %d; results, plots and weights: %s", best_step, steps, run.name)
    for line in _verdicts(metrics):
        log.info("%s", line)
    return tuned.dev_score


def _verdicts(metrics: RunMetrics) -> list[str]:
    return [in_words(line) for key in ("verdict", "general") if (line := metrics.details.get(key))]


def _general(untuned: Scores | None, tuned: Scores) -> Verdict | None:
    """Compare the STS tasks before and after training; None where a score is missing."""
    if untuned is None or untuned.test is None or tuned.test is None:
        return None
    # A file of the user's may be beside them.
    before, after = ({name: each.test_found[name] for name in SEVEN_TASKS} for each in (untuned, tuned))
    return compare_tasks(before, after, "Spearman", "the seven STS tasks")


def _write_final(experiment: Experiment) -> None:
    """Write the weights of the last step, for `trainer.init=final`, unless they are the selected ones."""
    run, module = experiment.run, experiment.module
    best, last = (run.read_checkpoint(which, mmap=True, whole=False) for which in ("best", "last"))
    if best["global_step"] == last["global_step"] and not experiment.cfg.trainer.wise_ft:
        return
    # Of a run that was killed after its last step, the module has not the average of callbacks=ema.
    module.load_state_dict(last["state_dict"], strict=False)
    write_model(module.encoder, run.checkpoints / "final", module.loss.state_dict(), last["global_step"])


def log_results(loggers: Sequence[Logger], metrics: RunMetrics, step: int) -> None:
    """Give the loggers the final scores of a run, which its history does not get."""
    scores = {f"final/{name}": value for name, value in metrics.scores.items()}
    for logger in loggers:
        with _optional(f"the entries of {type(logger).__name__}"):
            in_table = {HP_METRIC: metrics.score} if isinstance(logger, TensorBoardLogger) else {}
            logger.log_metrics({**scores, **in_table}, step)
            logger.finalize("success")


@contextmanager
def _optional(what: str) -> Iterator[None]:
    """Warn where something that only shows the results cannot be made: they are worth more than it."""
    try:
        yield
    except Exception as error:  # whatever LaTeX, a server or a library raises
        message = " ".join(str(error).split())
        log.warning("WARNING: %s could not be made (%s: %s)", what, type(error).__name__, message)


def _disagreements(scores: Scores, data: DataModule) -> list[Disagreement]:
    if scores.test is not None and (tasks := scored_tasks(data.tests)):
        return find_disagreements(tasks, scores.test_found)
    if isinstance(data.dev, Ranking):
        return []
    return find_disagreements([STSTask("dev", {"dev": data.dev})], {"dev": scores.dev_found})


def _details(experiment: Experiment, scores: Scores, seconds: float) -> dict[str, Any]:
    cfg, data, encoder = experiment.cfg, experiment.data, experiment.module.encoder
    start = None if cfg.init_from is None else RunFolder(cfg.init_from)
    earlier: TrainedOn = () if start is None else start.known_metrics().trained_on
    training = {"max_length": cfg.model.get("max_length"), "precision": experiment.machine.precision}
    return {
        "steps": experiment.trainer.global_step,
        **how_scored(encoder, data, cfg, scores),
        # What a table of the scores names.
        "training": {**training, "quantization": cfg.model.get("quantization", "none")},
        "texts": sample_texts(data),  # with which an export is compared
        "machine": dataclasses.asdict(experiment.machine),
        "processes": experiment.trainer.world_size,
        "micro_batch_size": experiment.module.micro_batch_size,
        "micro_batch_tokens": experiment.module.budget.tokens,
        "start": None if start is None else start.settings().get("name"),
        "earlier": [] if start is None else start.costs(),
        "resumed": experiment.resumed,
        **origin((*earlier, data.trained_on), seconds),
    }


def sample_texts(data: DataModule) -> dict[str, list[str]]:
    """Return some texts of the first and of the second column of training data, for exports."""
    name = next((name for name, part in data.parts.items() if part.is_rows), next(iter(data.parts)))
    table = data.splits[name].train
    columns = [view.column for view in data.parts[name].views if view.column in table.columns]
    rows = table[: 20 * EACH]
    first, second = (list(dict.fromkeys(rows[column])) for column in (columns[0], columns[:2][-1]))
    second = [text for text in second if text not in first[:EACH]]
    return {"first": [text[:CUT] for text in first[:EACH]], "second": [text[:CUT] for text in second[:EACH]]}


def _before(history: Sequence[Mapping[str, float]]) -> Mapping[str, float]:
    return history[0] if history and history[0]["step"] == 0 else {}


def _print_scores(experiment: Experiment, tuned: Scores, untuned: Scores | None, metrics: RunMetrics) -> None:
    data, rankings, before = experiment.data, metrics.rankings, _before(experiment.run.history())

    def row(scores: Scores) -> dict[str, float]:
        tests = spearman_row(scores.test) if scores.test and scored_tasks(data.tests) else {}
        of_pairs = {"dev": scores.dev_score, **tests}
        return {name: score for name, score in of_pairs.items() if name not in rankings}

    rows = {"tuned": row(tuned)}
    if untuned is not None:
        rows = {"untuned": row(untuned), **rows}
        rows["gain"] = {name: value - rows["untuned"][name] for name, value in rows["tuned"].items()}
    elif (monitor := monitor_of(data.dev)) in before and "dev" not in rankings:
        rows = {"untuned": {"dev": before[monitor]}, **rows}
    if "dev" in rankings:
        first = {key: before[f"dev/{key}"] for key in TITLES if f"dev/{key}" in before}
        rankings = {"untuned dev": first, "tuned dev": rankings.pop("dev"), **rankings}
    if any(rows.values()):
        how = f"aggregate={experiment.cfg.evaluation.aggregate}"
        title = title_of_table(experiment.module.encoder, data.text, "Spearman x 100", how)
        print_scores(title, {name: each for name, each in rows.items() if each})
    if rankings:
        print_rankings(rankings)
    for line in describe_binary(metrics.entries):
        log.info("%s", line)


def write_page(
    run: RunFolder, metrics: RunMetrics, pairs: Sequence[Disagreement], settings: Mapping[Any, Any]
) -> None:
    """Write the page of a run; what is not known is left out.

    Args:
        run: Run folder, of which history and plots are read.
        metrics: Results of the run.
        pairs: Pairs on which the encoder and the gold scores disagree most.
        settings: Configuration of the run.
    """
    shows = {key: format_value(value) for key, value in select(leaves(settings), SHOWN).items()}
    if (start := metrics.details.get("start")) is not None and "init_from" in shows:
        shows["init_from"] += f" ({start})"
    pages = Environment(loader=PackageLoader("sts_lightning", "workflows"), autoescape=True)
    text = pages.get_template("run_page.html.jinja").render(
        name=run.path.resolve().name,
        metrics=metrics,
        verdicts=_verdicts(metrics),
        rankings=metrics.rankings,
        ranking_cells=ranking_cells,
        binary={name: task["binary"] for name, task in metrics.entries.items() if task.get("binary")},
        images=[
            (path.stem, base64.b64encode(path.read_bytes()).decode())
            for path in sorted(run.plots.glob("*.png"))
        ],
        pairs=pairs,
        settings=list(shows.items()),
    )
    write_atomic(run.page_file, text + "\n")
