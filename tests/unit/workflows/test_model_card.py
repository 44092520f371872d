"""Model cards against the parser of huggingface_hub, and one of Markdown."""

from __future__ import annotations

import ast
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import ModelCard
from markdown_it import MarkdownIt

from sts_lightning.core.choices import ExportFormat
from sts_lightning.data.counts import TrainingCount
from sts_lightning.export.card import card_facts, model_card
from sts_lightning.models.encoding import EncodingConfig
from sts_lightning.runs.metrics import RunMetrics
from tests.support.card_runs import COUNT, bare, write_run

EVIL = "x`|\n# y\n---\n<script>z</script> [a](http://b)"


def describe(folder: Path, *, checked: Any = None, **settings: Any) -> None:
    """Change the encoder's settings in the file of an export."""
    path = folder / "sts_lightning.json"
    known = json.loads(path.read_text())["encoding"] if path.exists() else EncodingConfig().as_json()
    path.write_text(json.dumps({"encoding": known | settings, "checked": checked}))


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    folder = tmp_path / "exported"
    folder.mkdir()
    describe(folder, template='A "{sentence}"', max_length=64)
    (folder / "config.json").write_text("{}")
    return folder


@pytest.fixture(scope="module")
def facts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    run = tmp_path_factory.mktemp("runs") / "run"
    known = COUNT | {"dropped": {"in a test set (exact)": 4}}
    write_run(run, trained_on=[known, None], best_step=0)
    return card_facts(run)


def blocks(text: str) -> list[Any]:
    return MarkdownIt("commonmark").enable("table").parse(ModelCard(text).text)


def cells(text: str) -> list[str]:
    return [token.content for token in blocks(text) if token.type == "inline"]


def test_the_metadata_are_read_back(facts: dict[str, Any], exported: Path) -> None:
    data = ModelCard(model_card(facts, "sentence-transformers", "mit", "mine", exported)).data
    assert (data.base_model, data.license) == ("owner/base", "mit")
    assert data.library_name == "sentence-transformers"
    assert data.pipeline_tag == "sentence-similarity"
    assert {"sentence-transformers", "sentence-similarity", "feature-extraction"} <= set(data.tags)
    results = {result.dataset_name: result.metric_value for result in data.eval_results}
    assert results == {
        name: pytest.approx(task["spearman"] / 100, abs=5e-5)
        for name, task in facts["metrics"].test["tasks"].items()
    }


@pytest.mark.parametrize(
    ("given", "stated", "words"),
    [(None, "unknown", "Unknown. "), ("apache-2.0", "apache-2.0", "`apache-2.0`. ")],
)
def test_the_licence_is_given_or_unknown(given: str | None, stated: str, words: str, exported: Path) -> None:
    text = model_card(bare(), "merged", given, "mine", exported)
    assert ModelCard(text).data.license == stated
    assert text.partition("## Licence\n\n")[2].startswith(words)


@pytest.mark.parametrize("format_", ["adapter", "merged", "sentence-transformers"])
def test_the_example_is_python_for_the_format(
    format_: ExportFormat, facts: dict[str, Any], exported: Path
) -> None:
    found = blocks(model_card(facts, format_, None, "m", exported))
    fences = [token for token in found if token.type == "fence"]
    assert len(fences) == 1
    ast.parse(fences[0].content)
    assert len(fences[0].content.splitlines()) == 3
    assert '"m"' in fences[0].content
    assert "trust_remote_code" not in fences[0].content


def test_the_example_of_a_graph(facts: dict[str, Any], exported: Path) -> None:
    text = model_card(facts, "onnx", None, "m", exported)
    (fence,) = [token.content for token in blocks(text) if token.type == "fence"]
    ast.parse(fence)
    assert 'folder = "m"' in fence
    assert 'puts it into `A "{sentence}"`' in text


def test_an_export_with_code(facts: dict[str, Any], exported: Path) -> None:
    (exported / "template_transformer.py").touch()
    assert "trust_remote_code=True" in model_card(facts, "sentence-transformers", None, "m", exported)


def test_scores_data_and_audit_are_in_the_tables(facts: dict[str, Any], exported: Path) -> None:
    text = model_card(facts, "merged", None, "m", exported)
    found = cells(text)
    for name, interval in facts["intervals"].items():
        place = found.index(name if name == "average" else f"`{name}`")
        assert found[place + 1 : place + 3] == [
            f"{facts['metrics'].scores[name]:.2f}",
            f"{interval.low:.2f} to {interval.high:.2f}",
        ]
    assert "991 `pairs`" in found
    assert "4 pairs of the test sets removed (filter=exact); near duplicates not searched" in found
    assert found.count("not audited") == 1  # the stage whose data are unknown
    assert any("step `0`" in cell and "61.50" in cell for cell in found)
    average = model_card({**facts, "mixed": True}, "merged", None, "m", exported)
    assert "The weights are an average, selected" in average


@pytest.mark.parametrize(
    ("format_", "quantization", "original", "differs"),
    [
        ("merged", "4bit", True, True),
        ("merged", "4bit", False, False),
        ("merged", "none", True, False),
        ("adapter", "4bit", False, True),
        ("adapter", "none", False, False),
    ],
)
def test_scores_of_other_weights_are_said_to_be(
    format_: ExportFormat, quantization: str, original: bool, differs: bool, exported: Path
) -> None:
    facts = bare(recipe={"quantization": quantization})
    text = model_card(facts, format_, None, "m", exported, original)
    assert ("quantised to `4bit`" in text) == differs


def test_dense_layers_that_are_not_exported_are_named(facts: dict[str, Any], exported: Path) -> None:
    describe(exported, projection="always")
    assert "dense layers" in model_card(facts, "merged", None, "m", exported)
    assert "dense layers" not in model_card(facts, "sentence-transformers", None, "m", exported)


def test_a_run_brings_no_markup(exported: Path) -> None:
    stages = [asdict(TrainingCount(EVIL, EVIL, 5, dropped={EVIL: 3})), None]
    facts = bare(
        run=EVIL,
        base={"name": EVIL, "revision": EVIL},
        recipe={"loss": EVIL, "seed": EVIL},
        metrics=RunMetrics(None, {"spearman": 1.0, "pairs": EVIL}, {"trained_on": stages, "best_step": EVIL}),
        datasets=[EVIL],
    )
    text = model_card(facts, "merged", EVIL, EVIL, exported)
    unknown = RunMetrics(None, details={"trained_on": [None, None]})
    harmless = bare(recipe={"loss": "a", "seed": "a"}, metrics=unknown)
    plain = model_card(harmless, "merged", "a", "a", exported)
    kinds = [token.type for token in blocks(text)]
    assert kinds == [token.type for token in blocks(plain)]
    inline = {child.type for token in blocks(text) for child in token.children or []}
    assert inline == {"text", "code_inline"}
    assert ModelCard(text).data.license == EVIL


@pytest.mark.parametrize("format_", ["sentence-transformers", "onnx", "merged", "adapter"])
def test_prompts_by_role_and_the_comparison_are_said(
    format_: ExportFormat, facts: dict[str, Any], exported: Path
) -> None:
    checked = {"library": "peft", "version": "1.2", "texts": 11, "difference": 3.1e-7}
    describe(exported, template=None, query="q: ", document="d: ", checked=checked)
    text = model_card(facts, format_, None, "m", exported)
    assert "Loaded again in peft 1.2, its vectors of 11 texts were those of the run, up to 3e-07" in text
    if format_ == "sentence-transformers":
        assert "model.encode_query(" in text
    else:
        assert '`"q: "` (a query) or `"d: "` (a document) before each text' in text
    assert ("q: A man" in text) == (format_ == "onnx")
    assert "checked" not in cells(text)
