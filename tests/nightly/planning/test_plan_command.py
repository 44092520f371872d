"""The command `plan`, in this process."""

from __future__ import annotations

import pytest

from sts_lightning.cli.main import main
from tests.conftest import ROOT

TINY = ["model=tiny_bert", "data=toy", "data.batch_size=16", "precision=32-true"]


def test_a_run_on_a_card(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(ROOT)
    main(["plan", *TINY, "trainer.max_epochs=-1", "trainer.max_steps=12", "--card", "24GB"])
    text = " ".join(capsys.readouterr().out.split())
    assert text.startswith("run: ")
    assert "MiB, fits 24GB" in text
    assert "12 steps" in text and "32-true" in text
    assert "micro batch" not in text
    assert "time needs a GPU of known speed by name, such as --card rtx4090" in text


def test_each_run_of_a_recipe(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(ROOT)
    main(["plan", "experiment=pcc", "model=tiny_llama", "prompt=eol", "--card", "24GB"])
    printed = capsys.readouterr().out
    assert "pcc_stage1: " in printed
    assert "pcc: " in printed
