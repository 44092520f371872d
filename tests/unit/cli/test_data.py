"""`sts-lightning data`: against a local hub, and negatives by a model that was not trained."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

import sts_lightning
from sts_lightning.cli.main import main
from sts_lightning.data.own_rows import triplets
from tests.support.averaged_runs import write_run
from tests.support.command_line import leaves
from tests.support.hub_server import Hub
from tests.support.published_files import SIMCSE
from tests.support.run_entries import write_finished


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["get", "wiki"], "wiki1m_for_simcse.txt"),
        (["get", "wikis"], "unknown data 'wikis'"),
    ],
)
def test_mistakes_end_with_one_message(
    arguments: list[str], message: str, hub: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hub.add(SIMCSE, {})
    with pytest.raises(SystemExit) as caught:
        main(["data", *arguments, "--root", str(tmp_path / "data")])
    assert str(caught.value.code).startswith("error: ")
    assert message in str(caught.value.code)


def test_status_has_a_line_for_each_part(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["data", "status", "--root", str(tmp_path)])
    (_, *lines) = capsys.readouterr().out.splitlines()
    parts = ["sts", "triplets", "pairs", "wiki", "transfer", "probing"]
    assert [line.split()[:3] for line in lines] == [[name, "missing", "0"] for name in parts]
    for name, line in zip(parts, lines, strict=True):
        assert line.endswith(f" (`sts-lightning data get {name} --root {tmp_path}` fetches it.)")


WORDS = ("a dog, ran", "two cats sat", 'it "rains"', "no\nway", "chess")


@pytest.mark.parametrize("negatives", [1, 3])
def test_mined_negatives_are_those_of_the_run_and_can_be_trained_on(
    negatives: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_finished(tmp_path / "run")
    pairs, corpus, mined = tmp_path / "pairs.csv", tmp_path / "more.txt", tmp_path / "mined.csv"
    with pairs.open("w", newline="") as file:
        csv.writer(file).writerows([("q", "a"), *((f"{words} {words}", words) for words in WORDS)])
    corpus.write_text("maps\n\nsoup\n")
    command = ["data", "mine", str(tmp_path / "run"), str(pairs), "--to", str(mined)]
    command += ["--columns", "q", "a"] if negatives == 1 else []  # else recognised
    command += ["--corpus", str(corpus), "--negatives", str(negatives), "--cache-dir", str(tmp_path / "kept")]
    with caplog.at_level("INFO"):
        main([*command, "--relative-margin", "0", "--max-score", "1"])
    assert len(list((tmp_path / "kept").rglob("*.safetensors"))) == 1
    assert "truncated by max_length: 0 % of the texts (after " in caplog.text
    assert "WARNING" not in caplog.text  # of the long text by which the folder is checked
    columns = ("anchor", "positive", "negative", "negative2", "negative3")[: 2 + negatives]
    given = f"path={mined}" + (f" 'data.columns=[{','.join(columns)}]'" if negatives > 1 else "")
    assert f"loss=infonce data=triplets_file {given}" in caplog.text
    scored = tmp_path / "scored.csv"
    scored.write_text("sentence1,sentence2,score\na,b,1\nc,d,2\n")
    table = triplets(str(tmp_path), str(mined), columns, dev_path=str(scored)).read().train
    assert 0 < len(table) <= len(WORDS)
    texts = [*WORDS, "maps", "soup"]
    encoder = sts_lightning.load(tmp_path / "run")
    vectors = dict(zip(texts, encoder.encode(texts, normalize=True), strict=True))
    for row, (anchor, positive) in enumerate(table.pairs):
        [vector] = encoder.encode([anchor], normalize=True)
        cosines = {text: float(vectors[text] @ vector) for text in texts}
        fit = [text for text in texts if text != positive and cosines[text] <= cosines[positive]]
        expected = sorted(fit, key=lambda text: -cosines[text])[:negatives]
        assert [table[f"sentence{3 + i}"][row] for i in range(negatives)] == expected


def test_anchors_are_mined_as_queries(tmp_path: Path) -> None:
    """The query's prompt turns the order of the candidates round."""
    prompts = {"query": "never mind the ", "document": ""}
    run = write_run(tmp_path / "run", 0.3, 1, {"prompt": prompts})
    encoder = sts_lightning.load(run)
    pairs, mined = tmp_path / "pairs.csv", tmp_path / "mined.csv"
    rows = [(f"{words} {words}", words) for words in WORDS]
    with pairs.open("w", newline="") as file:
        csv.writer(file).writerows([("anchor", "positive"), *rows])
    main(["data", "mine", str(run), str(pairs), "--to", str(mined), "--relative-margin", "0"])
    asked = encoder.encode([anchor for anchor, _ in rows], normalize=True, prompt="query")
    cosines = asked @ encoder.encode(WORDS, normalize=True, prompt="document").T
    expected = {}
    for number, (anchor, _) in enumerate(rows):
        of_anchor = np.where(cosines[number] < cosines[number, number], cosines[number], -np.inf)
        if np.isfinite(of_anchor).any():
            expected[anchor] = WORDS[of_anchor.argmax()]
    with mined.open(newline="") as file:
        found = {anchor: negative for anchor, _, negative in list(csv.reader(file))[1:]}
    assert found == expected
    assert expected


def test_mistakes_in_mining(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pairs = tmp_path / "pairs.csv"
    pairs.write_text("sentence1,sentence2\na dog,a cat\na dog,rain\n")
    command = ["data", "mine", "tiny_bert", str(pairs)]
    mined = ["--to", str(tmp_path / "mined.csv")]
    for arguments, message in (
        (["--to", str(pairs)], "would overwrite another file"),
        (["--to", str(tmp_path / "mined.tsv")], "must name a .csv file"),
        (
            [*mined, "--range-min", "5", "--negatives", "2", "--range-max", "6"],
            "--range-max must be at least",
        ),
        ([*mined, "--corpus", str(pairs)], "one sentence a line is expected"),
        ([*mined, "--columns", "q", "a"], "no column named 'q', 'a'"),
        (mined, "no pair has 1 negative."),
    ):
        assert message in leaves(*command, *arguments, capsys=capsys)
    assert [*tmp_path.iterdir()] == [pairs]
