"""STS-B and SICK-R with all splits."""

from __future__ import annotations

from pathlib import Path

import pytest

from sts_lightning.data.readers.senteval import load_sickr
from sts_lightning.data.readers.supervised_sts import load_relatedness_tasks
from sts_lightning.errors import DataError


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A data root with small STS-B and SICK files."""
    words = ["one", "two dogs", "three red dogs", "four", "five cats", "six"]
    stsb = "".join(
        f"genre\tfile\tyear\t{row}\t{row % 6 * 0.9:.1f}\ta man saw {word}\tsomeone saw {word} {row}\n"
        for row, word in enumerate(words * 4)
    )
    sick = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\n" + "".join(
        f"{row}\tno {word}\tsome {word} {row}\t{1 + row % 5 * 0.9:.1f}\t"
        f"{('CONTRADICTION', 'NEUTRAL', 'ENTAILMENT')[row % 3]}\n"
        for row, word in enumerate(words * 4)
    )
    folder = tmp_path / "senteval"
    for part in ("train", "dev", "test"):
        path = folder / "STS" / "STSBenchmark" / f"sts-{part}.csv"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(stsb)
    (folder / "counts.json").write_text("{}")
    (folder / "SICK").mkdir()
    for part in ("train", "trial", "test_annotated"):
        (folder / "SICK" / f"SICK_{part}.txt").write_text(sick)
    return tmp_path


def test_scores_are_on_their_own_scale_and_in_sentevals_order(root: Path) -> None:
    stsb, sickr = load_relatedness_tasks(root)
    assert sorted(set(sickr.train.scores.round(6))) == [1, 1.9, 2.8, 3.7, 4.6]
    assert sorted(set(stsb.dev.scores.round(6))) == [0, 0.9, 1.8, 2.7, 3.6, 4.5]
    lengths = [len(first.split()) for first, _ in sickr.test.pairs]
    assert lengths == sorted(lengths)
    assert len(sickr.test.pairs) == len(load_sickr(root, "test"))
    with pytest.raises(DataError, match="unknown task SICKE; the tasks are STSB, SICKR"):
        load_relatedness_tasks(root, ["SICKE"])
