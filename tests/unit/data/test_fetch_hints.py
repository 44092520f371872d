"""Missing data: every error names the command that fetches them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sts_lightning.core.errors import DataError
from sts_lightning.data.nli import nli_pairs
from sts_lightning.data.own_rows import triplets
from sts_lightning.data.readers.sts_sets import load_sickr, load_sts_tasks, load_stsb
from sts_lightning.data.sentences import sentences
from sts_lightning.papers.classification import load_probing_tasks, load_transfer_tasks
from tests.support.data_modules import training

LOADS: list[tuple[str, Callable[[str], object]]] = [
    ("sts", load_sts_tasks),
    ("sts", lambda root: load_stsb(root, "dev")),
    ("sts", lambda root: load_sickr(root, "train")),
    ("transfer", load_transfer_tasks),
    ("probing", load_probing_tasks),
    ("triplets", lambda root: training(triplets, root).train),
    ("pairs", lambda root: training(nli_pairs, root).train),
    ("wiki", lambda root: training(sentences, root).train),
]


@pytest.mark.parametrize("folders", [[], ["senteval/STS", "senteval/MR", "senteval/probing"]])
@pytest.mark.parametrize(("part", "load"), LOADS)
def test_the_command(
    part: str,
    load: Callable[[str], object],
    folders: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("STS_DATA_ROOT", "elsewhere")
    for folder in folders:
        (tmp_path / folder).mkdir(parents=True)
    with pytest.raises(DataError) as caught:
        load(str(tmp_path))
    assert f"`sts-lightning data get {part} --root {tmp_path}`" in str(caught.value)
    assert caught.value.hint is not None
    assert caught.value.hint in str(caught.value)
    monkeypatch.setenv("STS_DATA_ROOT", str(tmp_path))
    with pytest.raises(DataError, match=f"`sts-lightning data get {part}`"):
        load(str(tmp_path))


def test_malformed_files_have_no_such_hint(tmp_path: Path) -> None:
    path = tmp_path / "senteval" / "STS" / "STSBenchmark" / "sts-dev.csv"
    path.parent.mkdir(parents=True)
    path.write_text("x\n")
    with pytest.raises(DataError) as caught:
        load_stsb(tmp_path, "dev")
    assert caught.value.hint is None
