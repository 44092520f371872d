"""The command `sts-lightning reproduce`."""

from __future__ import annotations

from pathlib import Path

import pytest

from sts_lightning.cli.main import main
from tests.conftest import ROOT
from tests.support.command_line import leaves

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _in_the_projects_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def test_tables_are_listed(capsys: Capture) -> None:
    main(["reproduce", "list"])
    listed = capsys.readouterr().out
    assert "pcc_table2" in listed
    assert (
        "86 runs of opt6_7b, llama7b, llama2_7b, mistral7b, nomic_v1, jina_v2; each: 1 GPU with 24 GB"
        in listed
    )
    assert " runs: SimCSE; PromptBERT; PromCSE; SimCSE, no template; PromptEOL; " in listed
    assert "cited: openai-ada-002 (a service, whose model is not public)" in listed


def test_plans_and_reports(tmp_path: Path, capsys: Capture) -> None:
    folder = ["--folder", str(tmp_path / "absent")]
    main(["reproduce", "plan", "regression_table3", "--model", "minilm", *folder])
    planned = capsys.readouterr().out
    assert planned.count("new ") == 21
    assert "no plan" not in planned
    assert "21 runs, 21 left." in planned
    assert not (tmp_path / "absent").exists()
    main(["reproduce", "report", "regression_table3", *folder])
    report = capsys.readouterr().out
    assert "| jina_v2, + regression | published, jina_v2 | 75.17 |" in report
    assert "| jina_v2, + regression | here | missing |" in report
    assert (tmp_path / "absent" / "tables" / "regression_table3.md").is_file()


def test_mistakes(tmp_path: Path, capsys: Capture) -> None:
    def mistake(*arguments: str) -> str:
        return leaves("reproduce", *arguments, capsys=capsys)

    assert "error: there is no table no_such_table; there are: best_minilm, " in mistake(
        "run", "no_such_table"
    )
    assert "--jobs" in mistake("run", "losses_minilm", "--jobs", "0")
    Path(tmp_path / "file").touch()
    assert "is a file" in mistake("report", "losses_minilm", "--folder", str(tmp_path / "file"))
    assert "--launcher process" in mistake("plan", "losses_minilm", "--set", "nope")
    assert "hydra.launcher.nope: no such setting" in mistake("plan", "losses_minilm", "--set", "nope=1")
    absent = tmp_path / "absent"
    large = mistake("run", "pcc_table2", "--folder", str(absent))
    assert "needs 1 GPU with 24 GB, up to 6 h, and no GPU is visible. --model minilm" in large
    assert not absent.exists()
