"""The page of all runs in a folder."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

from sts_lightning.runs.board import board
from sts_lightning.runs.charts import STYLES
from sts_lightning.runs.folder import RunFolder
from sts_lightning.runs.listing import find_runs, group_seeds, sort_groups
from tests.runs.test_listing import INFONCE, settings, write

ATTACK = "<script>alert(1)</script>"


class Reader(HTMLParser):
    """Reads tags, which must be closed in order, and the cells of tables."""

    void = frozenset({"meta"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.sources: list[str | None] = []
        self.texts: dict[str, list[str]] = {}
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.sources += [value for name, value in attrs if name in ("src", "href")]
        self.texts.setdefault(tag, []).append("")
        if tag not in self.void:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        for tag in set(self.open):
            self.texts[tag][-1] += data


def page(root: Path, apart: bool = False) -> str:
    groups = sort_groups(group_seeds(find_runs(root), apart), "dev")
    return board(groups, ["dev", "STSB", "average"], root, "dev")


def history(run: Path, *scores: float) -> None:
    rows = [f"{100 * number},{score}" for number, score in enumerate(scores)]
    RunFolder(run).history_file.write_text("\n".join(["step,dev/spearman", *rows]) + "\n")


def test_table_and_curves(tmp_path: Path) -> None:
    for seed, dev in ((1, 80.0), (2, 82.0)):
        write(tmp_path / f"pearson{seed}", settings(seed), dev)
        history(tmp_path / f"pearson{seed}", 60, 70, dev)
    write(tmp_path / "infonce", settings(1, loss=INFONCE, optim={"lr": 5e-5}), 70.0)
    history(tmp_path / "infonce", 60, float("nan"), 70)
    read = Reader(page(tmp_path))
    assert read.sources == []
    assert [text.strip() for text in read.texts["th"]] == [
        *("run", "state", "seeds", "loss", "optim.lr", "dev", "STSB", "average", "minutes", "GB")
    ]
    pearson, infonce = read.texts["td"][:10], read.texts["td"][10:]
    assert pearson[:6] == ["pearson1 +1", "finished", "1 2", "PearsonLoss", "1e-05", "81.00 ± 1.41"]
    assert infonce[:6] == ["infonce", "finished", "1", "InfoNCELoss", "5e-05", "70.00"]
    assert read.tags.count("button") == 10
    assert read.tags.count("polyline") == 3  # one for each seed
    assert "pearson1 +1: loss=PearsonLoss" in read.texts["li"][0]
    assert Reader(page(tmp_path, apart=True)).tags.count("li") == 3


def test_what_runs_say_is_text(tmp_path: Path) -> None:
    write(tmp_path / "<b>name", settings(1, prompt={"template": ATTACK}), 80.0)
    history(tmp_path / "<b>name", 60, 80)
    write(tmp_path / "other", settings(1, **{ATTACK: 1}), 70.0)
    (tmp_path / "other" / "history.csv").write_text(f"step\n{ATTACK}\n")
    read = Reader(page(tmp_path))
    assert read.tags.count("script") == 1  # the one that sorts
    assert "b" not in read.tags
    assert ATTACK in read.texts["td"]
    assert ATTACK in read.texts["th"]
    assert any("history.csv, line 2" in text and ATTACK in text for text in read.texts["li"])


def test_the_best_groups_are_drawn(tmp_path: Path) -> None:
    for number in range(len(STYLES) + 2):
        write(tmp_path / f"run{number}", settings(1, optim={"lr": float(number)}), 70.0 + number)
        history(tmp_path / f"run{number}", 60, 70 + number)
    read = Reader(page(tmp_path))
    assert read.tags.count("polyline") == len(read.texts["li"]) == len(STYLES)
    assert not any("run1:" in text or "run0:" in text for text in read.texts["li"])
    assert any(f"The first {len(STYLES)} of {len(STYLES) + 2}" in text for text in read.texts["p"])


def test_a_folder_without_curves(tmp_path: Path) -> None:
    write(tmp_path / "started", settings(1))
    read = Reader(page(tmp_path))
    assert "svg" not in read.tags
    assert "No run has a history" in read.texts["p"][0]
