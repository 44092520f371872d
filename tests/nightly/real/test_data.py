"""Counts of the real data, against those of the papers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from sts_lightning.core.choices import SentEvalText
from sts_lightning.data.fetch import DOWNLOADS, get, load_sources, take_stock
from sts_lightning.data.nli import nli_pairs, nli_triplets
from sts_lightning.data.overlap import OverlapFilter
from sts_lightning.data.readers.sts_sets import is_prepared, load_sts_tasks, load_stsb, text_found
from sts_lightning.data.sentences import sentences
from sts_lightning.data.sts_train import sts_train
from sts_lightning.papers.classification import TRANSFER_TASKS, load_transfer_tasks
from tests.support.data_modules import data_module, training
from tests.support.hub_server import Hub
from tests.support.published_files import SIMCSE, tar


def test_sizes_of_the_seven_tasks(data_root: str) -> None:
    sizes = {task.name: sum(map(len, task.subsets.values())) for task in load_sts_tasks(data_root)}
    assert sizes == {
        "STS12": 3108,
        "STS13": 1500,
        "STS14": 3750,
        "STS15": 3000,
        "STS16": 1186,
        "STSB": 1379,
        "SICKR": 4927,
    }
    assert len(load_stsb(data_root, "dev")) == 1500


@pytest.mark.parametrize(
    ("how", "kept"), [("exact", (991, 4407)), ("none", (5749, 4500)), ("normalized", (951, 4367))]
)
@pytest.mark.parametrize("text", get_args(SentEvalText))
def test_sizes_of_the_filtered_corpus(
    data_root: str, how: OverlapFilter, kept: tuple[int, int], text: SentEvalText
) -> None:
    data = data_module(sts_train, data_root, batch_size=64, seed=1, filter=how, senteval_text=text)
    data.setup()
    assert data.text == text
    assert tuple(count.kept for count in data.counts) == kept
    assert len(data.train) == sum(kept)
    assert not data.trained_on.differs


def test_every_file_is_raw_and_is_recognised_once_prepared(data_root: str) -> None:
    for text in get_args(SentEvalText):
        tasks = load_sts_tasks(data_root, text=text)
        tables = {name: table for task in tasks for name, table in task.subsets.items()}
        for name, table in tables.items():
            assert text_found([table]) == text, name
            sentences = [*table["sentence1"], *table["sentence2"]]
            assert is_prepared(sentences, lower=tasks[-1].subsets["test"] is not table) == (text != "raw"), (
                name
            )


@pytest.mark.parametrize("text", get_args(SentEvalText))
def test_clean_sts_b_dev_is_in_no_test_set_and_not_trained_on(data_root: str, text: SentEvalText) -> None:
    def key(pair: tuple[str, str]) -> tuple[str, ...]:
        return tuple(sorted("".join(filter(str.isalnum, text.lower())) for text in pair))

    data = data_module(sts_train, data_root, batch_size=64, seed=1, dev="stsb_clean", senteval_text=text)
    data.setup()
    assert [count.dropped["in the dev set"] for count in data.sources] == [1, 8]
    assert data.text == text
    clean = [key(pair) for pair in data.dev.pairs]
    assert len(set(clean)) == len(clean) == 361
    for task in load_sts_tasks(data_root):
        for table in task.subsets.values():
            assert not {key(pair) for pair in table.pairs} & set(clean), task.name
    assert not {key(pair) for pair in data.train.pairs} & set(clean)


def test_number_of_triplets(data_root: str) -> None:
    data = data_module(nli_triplets, data_root, batch_size=64, seed=1)
    data.setup()
    assert len(data.train) == 59278
    assert str(data.trained_on) == "59,278 of 275,601 triplets"


def test_positives_of_the_filtered_corpus(data_root: str) -> None:
    data = data_module(sts_train, data_root, batch_size=64, seed=1, positives_from=4.0)
    data.setup()
    assert [count.kept for count in data.counts] == [230, 1313]  # 1,543 together, as published
    assert data.data_set.label == "none"
    assert min(data.train["label"]) == 4.0


def test_number_of_pairs_and_of_each_class(data_root: str) -> None:
    labels = np.asarray(training(nli_pairs, data_root, filter="none").train["label"])
    assert np.bincount(labels).tolist() == [93336, 86400, 88165]
    clean = training(nli_pairs, data_root)
    assert len(clean.train) == len(labels) - 1  # one pair stands in a test set
    assert clean.train.sources[0].dropped["in a test set (exact)"] == 1


def test_number_of_sentences(data_root: str) -> None:
    assert len(training(sentences, data_root).train) == 84254


def test_sizes_of_the_transfer_tasks(data_root: str) -> None:
    found = {
        task.name: [len(split.labels) for split in (task.train, task.dev, task.test) if split is not None]
        for task in load_transfer_tasks(data_root, TRANSFER_TASKS)
    }
    assert found == {
        "MR": [10662],
        "CR": [3775],
        "SUBJ": [10000],
        "MPQA": [10606],
        "SST2": [67349, 872, 1821],
        "TREC": [5452, 500],
        "MRPC": [4076, 1725],
    }


def test_fetched_files_are_those_of_the_archive(data_root: str, hub: Hub, tmp_path: Path) -> None:
    folder = Path(data_root) / "senteval"
    wanted = [DOWNLOADS["sts"], DOWNLOADS["transfer"]]
    names = [name.removeprefix("senteval/") for each in wanted for name in each.files]
    hub.add(SIMCSE, {"senteval.tar": tar({name: (folder / name).read_bytes() for name in names})})
    get(wanted, {name: replace(source, revision="main") for name, source in load_sources().items()}, tmp_path)
    for name in names:
        assert (tmp_path / "senteval" / name).read_bytes() == (folder / name).read_bytes()
    assert [take_stock(each, tmp_path).state for each in wanted] == ["complete", "complete"]
    assert take_stock(wanted[0], tmp_path).rows == 31_099
