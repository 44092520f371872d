"""`sts-lightning similarity` on a run that was not trained."""

from __future__ import annotations

import csv
import logging
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import Tensor, nn

import sts_lightning
from sts_lightning.cli.main import main
from sts_lightning.models.encoder import SentenceEncoder
from tests.support.command_line import leaves
from tests.support.emulated_gpu import emulated_gpu
from tests.support.run_entries import write_finished
from tests.support.st_folders import st_folder

TEXTS = ["a dog ran", "two cats sat", "the dog ran away", "rain"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("runs") / "run"
    write_finished(folder)
    return folder


def cosine(run: Path, first: str, second: str) -> float:
    one, two = sts_lightning.load(run).encode([first, second]).astype(np.float64)
    return float(one @ two / np.linalg.norm(one) / np.linalg.norm(two))


def test_scores_of_a_file(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pairs = tmp_path / "pairs.csv"
    pairs.write_text(f'id,q,a\n7,{TEXTS[0]},"{TEXTS[1]}"\n8,{TEXTS[2]},{TEXTS[3]}\n')
    written = tmp_path / "scores.csv"
    main(["similarity", str(run), str(pairs), "--columns", "q", "a", "--to", str(written)])
    capsys.readouterr()
    main(["similarity", str(run), str(pairs), "--columns", "q", "a"])
    rows = list(csv.DictReader(written.open()))
    assert [row["a"] for row in rows] == [TEXTS[1], TEXTS[3]]
    expected = [cosine(run, TEXTS[0], TEXTS[1]), cosine(run, TEXTS[2], TEXTS[3])]
    assert [float(row["cosine"]) for row in rows] == pytest.approx(expected, abs=2e-6)
    assert capsys.readouterr().out == written.read_text()


def test_a_gpu_computes_the_scores(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pairs = tmp_path / "pairs.csv"
    pairs.write_text(f"sentence1,sentence2\n{TEXTS[0]},{TEXTS[1]}\n")
    devices, embed = [], SentenceEncoder.embed_chunk

    def watched(encoder: SentenceEncoder, *rest: Any, **more: Any) -> Tensor:
        devices.append(encoder.device.type)
        return embed(encoder, *rest, **more)

    with emulated_gpu():
        monkeypatch.setattr(SentenceEncoder, "embed_chunk", watched)
        main(["similarity", str(run), str(pairs)])
    assert devices[-1] == "cuda"  # the first are of loading
    monkeypatch.undo()
    printed = float(capsys.readouterr().out.splitlines()[-1].rpartition(",")[2])
    assert printed == pytest.approx(cosine(run, TEXTS[0], TEXTS[1]), abs=1e-5)


def test_what_the_model_does_not_see(run: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Contracts that differ at their end alone have equal vectors, and Thai words one token."""
    contract = "The mayor cleans a worn bike behind the church. " * 14
    pairs = tmp_path / "pairs.csv"
    pairs.write_text(f"sentence1,sentence2\n{contract}It ends.,{contract}He pays.\nครู ซื้อ,a dog\n")
    with caplog.at_level("INFO"):
        main(["similarity", str(run), str(pairs), "--to", str(tmp_path / "scores.csv")])
    length = sts_lightning.load(run).tokenizer.lengths.eval
    assert (
        f"truncated by max_length: 50 % of the texts (after {length} tokens); unknown tokens: " in caplog.text
    )
    assert "WARNING" not in caplog.text  # two unknown words among hundreds of letters
    pairs.write_text("sentence1,sentence2\nครู ซื้อ,a dog\n")
    main(["similarity", str(run), str(pairs), "--to", str(tmp_path / "scores.csv")])
    assert "WARNING: 33.3 % of the tokens of the texts are unknown" in caplog.text


@pytest.mark.parametrize("kind", ["sentence-transformers", "transformers"])
def test_scores_of_a_model(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The cosines of the other library, alone on standard output."""
    folder, other = st_folder(tmp_path, dense=((16, nn.Tanh()),) if kind == "sentence-transformers" else ())
    if kind == "transformers":
        (Path(folder) / "modules.json").unlink()
    pairs = tmp_path / "pairs.csv"
    pairs.write_text(f"sentence1,sentence2\n{TEXTS[0]},{TEXTS[1]}\n{TEXTS[2]},{TEXTS[3]}\n")
    main(["similarity", folder, str(pairs)])
    rows = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    first, second = other.encode([TEXTS[0], TEXTS[2]]), other.encode([TEXTS[1], TEXTS[3]])
    expected = other.similarity_pairwise(first, second).tolist()
    assert [float(row["cosine"]) for row in rows] == pytest.approx(expected, abs=1e-6)


def test_scores_of_a_choice_of_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By the name that `eval.py model=` takes, unless there is a folder of that name."""
    pairs = tmp_path / "pairs.csv"
    pairs.write_text(f"sentence1,sentence2\n{TEXTS[0]},{TEXTS[0]}\n")
    main(["similarity", "tiny_bert", str(pairs)])
    assert capsys.readouterr().out.splitlines()[1].endswith(",1.000000")
    said = leaves("similarity", "tiny_bart", str(pairs), capsys=capsys)
    assert "neither a folder here nor a choice of model=. Did you mean tiny_bert" in said
    assert "rnus/typo is neither a folder nor a model on the hub" in leaves(
        "similarity", "rnus/typo", str(pairs), capsys=capsys
    )


def test_standard_output_holds_the_csv_alone(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs = tmp_path / "pairs.csv"
    pairs.write_text("sentence1;sentence2\na dog, ran;rain\n")
    root = logging.getLogger()  # as the program logs, which pytest's own handlers prevent here
    monkeypatch.setattr(root, "handlers", [*root.handlers, logging.StreamHandler(sys.stdout)])
    root.setLevel("INFO")
    main(["similarity", str(run), str(pairs)])
    said = capsys.readouterr()
    assert [row[:2] for row in csv.reader(said.out.splitlines())] == [
        ["sentence1", "sentence2"],
        ["a dog, ran", "rain"],
    ]
    assert "truncated by max_length" in said.err


def test_mistakes(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pairs = tmp_path / "pairs.csv"
    pairs.write_text("sentence1,sentence2\na dog,\n,\n")
    assert f"{pairs}, line 2: a sentence is empty; and 1 more row with errors: line 3." in leaves(
        "similarity", str(run), str(pairs), capsys=capsys
    )
    assert "absent" in leaves("similarity", str(run), str(tmp_path / "absent"), capsys=capsys)
    pairs.write_text("sentence1,sentence2\na dog,a cat\n")
    assert "not a run folder" in leaves("similarity", str(tmp_path), str(pairs), capsys=capsys)
