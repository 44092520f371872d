"""The pre-trained encoder on the real data, against published scores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from datasets import Dataset, DatasetDict

from sts_lightning.data.readers.sts_sets import STSTask, load_sickr, load_sts_tasks
from sts_lightning.data.readers.tables import read_rows
from sts_lightning.data.table import concatenate
from sts_lightning.evaluation.mteb import evaluate_mteb, find_mteb_tasks
from sts_lightning.evaluation.sts import evaluate_sts
from sts_lightning.evaluation.suites import UnitVectors
from sts_lightning.models.loading.hub import packaged_copy
from sts_lightning.models.loading.run import build_encoder
from tests.runs.test_minilm import Config
from tests.runs.test_minilm import _needs_the_packaged_model as _needs_the_packaged_model


def test_published_scores(data_root: str, config: Config) -> None:
    cfg = config()
    encoder = build_encoder(cfg.model, cfg.prompt).eval()
    splits = [load_sickr(data_root, split) for split in ("train", "trial", "test")]
    whole_sick = STSTask("SICK-R, all pairs", {"all": concatenate(splits)})
    result = evaluate_sts(encoder, [*load_sts_tasks(data_root), whole_sick])
    scores = {name: task["spearman"] for name, task in result["tasks"].items()}
    expected = {
        "STS12": 72.37,
        "STS13": 80.60,
        "STS14": 75.60,
        "STS15": 85.39,
        "STS16": 78.99,
        "STSB": 82.03,
        "SICKR": 77.15,
        "SICK-R, all pairs": 77.58,
    }
    assert scores == pytest.approx(expected, abs=0.02)
    assert result["tasks"]["SICK-R, all pairs"]["pairs"] == 9927


def test_mteb_scores(data_root: str, config: Config, tmp_path: Path) -> None:
    import mteb
    from sentence_transformers import SentenceTransformer

    """MTEB scores us as it scores sentence-transformers with the same model, on Banking77 and STS-B.

    STS-B's score, 82.03, is the published one.
    """
    columns: dict[str, dict[str, list[str]]] = {}
    for split, part in (("train", 2), ("test", 8)):
        path = Path(data_root) / "banking77" / f"{split}.csv"
        rows = [fields for _, fields in read_rows(path, ["text", "category"], list)][::part]
        columns[split] = {"text": [text for text, _ in rows], "label": [label for _, label in rows]}
    stsb = Dataset.from_dict({**load_sts_tasks(data_root, ("STSB",))[0].subsets["test"].columns})
    stsb = stsb.rename_column("label", "score")
    banking = DatasetDict({split: Dataset.from_dict(values) for split, values in columns.items()})

    def tasks() -> list[Any]:
        found = find_mteb_tasks(["Banking77Classification", "STSBenchmark"])
        for task, data in zip(found, (banking, DatasetDict(test=stsb)), strict=True):
            task.dataset, task.data_loaded = data, True
        return found

    encoder = build_encoder(config().model, config().prompt).eval()
    ours = evaluate_mteb(UnitVectors(encoder), tasks(), tmp_path)["tasks"]
    peer = SentenceTransformer(str(packaged_copy(*config().model.name.split("@"))), device="cpu")
    theirs = mteb.evaluate(peer, tasks(), cache=None, show_progress_bar=False).task_results
    for result in theirs:
        assert ours[result.task_name]["score"] == pytest.approx(100 * result.get_score(), abs=0.2)
    assert ours["STSBenchmark"]["score"] == pytest.approx(82.03, abs=0.02)
