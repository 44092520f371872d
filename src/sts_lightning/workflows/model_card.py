"""The model card of an export: a README with the metadata that the model hub reads."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from huggingface_hub import EvalResult, ModelCard, ModelCardData

from sts_lightning.choices import ExportFormat
from sts_lightning.models.pipeline_files import OWN_FILE
from sts_lightning.published import TrainingCount
from sts_lightning.text import code
from sts_lightning.workflows.card_facts import UNKNOWN, CardFacts, Score, leak_audit

TAGS = ["sentence-similarity", "feature-extraction", "sts-lightning"]

LIBRARIES: dict[ExportFormat, str] = {
    "adapter": "peft",
    "merged": "transformers",
    "sentence-transformers": "sentence-transformers",
}
"""Library that reads a format, by its name on the hub."""


def model_card(
    facts: CardFacts,
    format_: ExportFormat,
    licence: str | None,
    name: str,
    folder: Path,
    original_base: bool = False,
) -> str:
    """Return the model card of an exported folder.

    Text of the run is written as code, so that it brings no markup of its own.

    Args:
        facts: What is known about the run.
        format_: ExportFormat of the export.
        licence: Identifier of the licence by the user; None for that of the base model, if known.
        name: Name by which the model is loaded in the examples.
        folder: Exported folder, complete but for the card.
        original_base: Whether an adapter was merged into the weights before quantisation.
    """
    settings = json.loads((folder / OWN_FILE).read_text("utf-8"))
    sections = {
        "Use": _use(format_, name, folder, settings),
        "Scores": "\n\n".join([*_scores(facts), *_differs(facts, format_, settings, original_base)]),
        "Training": _table(("setting", "value"), facts.recipe.items()),
        "Training data": _data(facts.data),
        "Encoding": _encoding(settings),
        "Licence": _licence(facts, licence),
    }
    title = f"# {code(name.rpartition('/')[2])}\n\n{_summary(facts)}"
    body = [title, *(f"## {heading}\n\n{text}" for heading, text in sections.items())]
    data = _metadata(facts, format_, licence)
    return str(ModelCard(f"---\n{data.to_yaml()}\n---\n\n" + "\n\n".join(body) + "\n"))


def _metadata(facts: CardFacts, format_: ExportFormat, licence: str | None) -> ModelCardData:
    stated = {"license": licence} if licence else dict(facts.base.licence) or {"license": UNKNOWN}
    first = format_ == "sentence-transformers"
    results = [
        EvalResult(
            task_type="semantic-similarity",
            task_name="Semantic textual similarity",
            dataset_type="unknown",
            dataset_name=name,
            dataset_config=name,  # by it the library tells data sets of the same type apart
            metric_type="spearman_cosine",
            metric_name="Spearman correlation of cosines",
            metric_value=round(score.value / 100, 4),
        )
        for name, score in facts.scores.items()
        if score.pairs is not None and math.isfinite(score.value)
    ]
    return ModelCardData(
        **stated,
        base_model=facts.base.hub_id,
        datasets=list(facts.hub_data) or None,
        library_name=LIBRARIES[format_],
        pipeline_tag="sentence-similarity" if first else "feature-extraction",
        tags=[LIBRARIES[format_], *TAGS],
        model_name=facts.name if results else None,
        eval_results=results or None,
    )


def _summary(facts: CardFacts) -> str:
    base = code(facts.base.name) + (
        f" at revision {code(facts.base.revision)}" if facts.base.revision else ""
    )
    how = f", with {code(facts.recipe['loss'])}" if "loss" in facts.recipe else ""
    return (
        f"Sentence embeddings for semantic textual similarity, trained from {base}{how}. This is the encoder "
        f"of the run {code(facts.name)} of STS-Lightning."
    )


def _use(format_: ExportFormat, name: str, folder: Path, settings: dict[str, Any]) -> str:
    quoted = json.dumps(name)
    if format_ == "sentence-transformers":
        own_code = any(folder.glob("*.py"))
        lines = [
            "from sentence_transformers import SentenceTransformer",
            f"model = SentenceTransformer({quoted}{', trust_remote_code=True' if own_code else ''})",
            'print(model.similarity(*model.encode(["A man plays a guitar.", "Someone makes music."])))',
        ]
        note = (
            f"\n\nThe template is put around each sentence by {code('template_transformer.py')}, which the "
        )
        return _python(lines) + (f"{note}folder includes: read it before you trust it." if own_code else "")
    if format_ == "adapter":
        lines = [
            "from peft import AutoPeftModelForFeatureExtraction",
            "from transformers import AutoTokenizer",
            f"tokenizer, model = (part.from_pretrained({quoted}) for part in "
            "(AutoTokenizer, AutoPeftModelForFeatureExtraction))",
        ]
    else:
        config = json.loads((folder / "config.json").read_text("utf-8"))
        encoder = ".get_encoder()" if config.get("is_encoder_decoder") else ""
        lines = [
            "from transformers import AutoModel, AutoTokenizer",
            f"tokenizer = AutoTokenizer.from_pretrained({quoted})",
            f"model = AutoModel.from_pretrained({quoted}){encoder}",
        ]
    template = (
        "" if settings["template"] is None else f"Put each sentence into {code(settings['template'])}. "
    )
    return (
        f"{_python(lines)}\n\n{template}The vector of a sentence is the pooling {code(settings['pooling'])} "
        f"of the hidden states; {code(OWN_FILE)} has every setting that determines it."
    )


def _python(lines: Sequence[str]) -> str:
    return "\n".join(["```python", *lines, "```"])


def _scores(facts: CardFacts) -> list[str]:
    parts = []
    if facts.scores:
        rows = (_score_row(name, score) for name, score in facts.scores.items())
        parts.append(
            "Spearman correlation of cosine and gold score, times 100, with percentile intervals of 1,000 "
            "bootstrap resamples of the test pairs, which cover the choice of pairs, not that of the seed."
        )
        parts.append(_table(("test set", "score", "95 % interval", "pairs"), rows, as_code=False))
        if facts.without_intervals:
            parts.append(f"A score without an interval: {facts.without_intervals}.")
    else:
        parts.append("The run has no scores on test sets.")
    if facts.dev is None:
        parts.append("The run has not stored the dev score that selected its weights.")
    else:
        pairs = code(facts.dev.get("pairs", UNKNOWN))
        weights = "an average" if facts.best_step is None else f"those of step {code(facts.best_step)}"
        kinds = len(facts.dev.get("parts", ()))
        parts.append(
            f"The weights are {weights}, selected by their score on {pairs} dev pairs"
            f"{f' of {kinds} kinds, the mean over these' if kinds else ''}: "
            f"{float(facts.dev['spearman']):.2f}{_before(facts.dev_untuned)}."
        )
    return parts


def _differs(
    facts: CardFacts, format_: ExportFormat, settings: dict[str, Any], original_base: bool
) -> list[str]:
    """Return why the exported files alone give other vectors than those that were scored."""
    notes = []
    quantization = facts.recipe.get("quantization", "none")
    if quantization != "none" and (original_base or format_ == "adapter"):
        notes.append(
            f"The scores are those of the adapter on a base quantised to {code(quantization)}, as in "
            "training; on the original weights the vectors differ."
        )
    if settings.get("projection") == "always" and format_ != "sentence-transformers":
        notes.append("The scores are those with dense layers on top, which this format does not hold.")
    return notes


def _before(untuned: float | None) -> str:
    return "" if untuned is None else f" ({untuned:.2f} before training)"


def _score_row(name: str, score: Score) -> tuple[str, str, str, str]:
    interval = score.interval
    return (
        name if name == "average" else code(name, in_table=True),
        f"{score.value:.2f}",
        "-" if interval is None else f"{interval.low:.2f} to {interval.high:.2f}",
        "" if score.pairs is None else f"{score.pairs:,}",
    )


def _data(data: Sequence[TrainingCount | None]) -> str:
    if not data:
        return "None: the weights are those of the base model."
    rows = []
    for number, count in enumerate(data, start=1):
        known = (
            (UNKNOWN, UNKNOWN, "")
            if count is None
            else (code(count.source, True), f"{count.rows:,} {code(count.unit, True)}", _dropped(count))
        )
        rows.append((str(number), *known, leak_audit(count)))
    return _table(("stage", "source", "examples", "left out", "pairs of test sets"), rows, as_code=False)


def _dropped(count: TrainingCount) -> str:
    return code(count.reasons, True) if count.reasons else ""


def _encoding(settings: dict[str, Any]) -> str:
    known = {name: value for name, value in settings.items() if value not in (None, "none", False)}
    return _table(("setting", "value"), known.items())


def _licence(facts: CardFacts, licence: str | None) -> str:
    base = facts.base.licence.get("license")
    of_base = f"The card of {code(facts.base.name)} states {code(base)}." if base else ""
    if licence:
        return f"{code(licence)}. {of_base}".rstrip()
    return of_base or f"Unknown: no card of {code(facts.base.name)} with a licence was found."


def _table(header: Sequence[str], rows: Iterable[tuple[Any, ...]], as_code: bool = True) -> str:
    """Return a table; with ``as_code`` all cells but the first are code."""
    lines = [f"| {' | '.join(header)} |", f"|{' --- |' * len(header)}"]
    for first, *others in rows:
        cells = [code(cell, in_table=True) for cell in others] if as_code else others
        lines.append(f"| {' | '.join([first, *cells])} |")
    return "\n".join(lines)
