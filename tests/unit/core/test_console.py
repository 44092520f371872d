"""Terminal output."""

from __future__ import annotations

import io
import logging
import warnings
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from sts_lightning.core.console import log_to, print_scores, quiet_lightning


def printed(rows: dict[str, dict[str, float]]) -> list[list[str]]:
    """The cells of a printed table, row by row."""
    text = io.StringIO()
    print_scores("Spearman x 100", rows, Console(file=text, width=100))
    lines = [line for line in text.getvalue().splitlines() if "│" in line or "┃" in line]
    return [[cell.strip() for cell in line.replace("┃", "│").strip("│").split("│")] for line in lines]


def test_scores_have_two_decimals_and_absent_ones_a_dash() -> None:
    rows = {"a": {"dev": 80.126}, "b": {"dev": 7.0}, "c": {}}
    assert printed(rows) == [["", "dev"], ["a", "80.13"], ["b", "7.00"], ["c", "-"]]


def test_a_wide_table_is_transposed() -> None:
    rows = {"tuned": {"dev": 80.0, "STSB": 81.0, "SICKR": 82.0}, "gain": {"dev": 1.0, "SICKR": -2.0}}
    assert printed(rows) == [
        ["", "tuned", "gain"],
        ["dev", "80.00", "1.00"],
        ["STSB", "81.00", "-"],
        ["SICKR", "82.00", "-2.00"],
    ]


LONG = {
    f"loss={loss} optim.lr={rate}": {f"STS{year}": 78.123 for year in range(12, 21)}
    for loss in ("smooth_k2", "translated_relu", "concordance")
    for rate in ("0.00001", "0.00002", "0.00005")
}


def test_a_table_with_long_names_is_not_transposed() -> None:
    rows = {"a long name " + "x" * number: {"dev": 80.0, "STSB": 81.0, "SICKR": 82.0} for number in (5, 9)}
    assert [line[0] for line in printed(rows)] == ["", *rows]


@pytest.mark.parametrize("turned", [True, False])
@pytest.mark.parametrize("terminal", [True, False])
def test_nothing_is_left_out_where_the_table_is_too_wide(terminal: bool, turned: bool) -> None:
    text = io.StringIO()
    rows = dict(list(LONG.items())[3:6]) if turned else LONG
    print_scores("scores", rows, Console(file=text, width=80, force_terminal=terminal, no_color=True))
    lines = text.getvalue().splitlines()
    assert text.getvalue().count("78.12") == 9 * len(rows)
    assert "…" not in text.getvalue()
    if terminal:
        assert max(cell_len(Text.from_ansi(line).plain) for line in lines) <= 80
        assert text.getvalue().replace("\n", "").count("translated_relu") == 3
    else:
        assert [name for name in rows if not any(name in line for line in lines)] == []


def test_brackets_in_names_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    print_scores("scores [/b]", {"tuned": {"[/i]": 80.0, ":smile:": 81.0}})
    text = capsys.readouterr().out
    assert "[/b]" in text
    assert "[/i]" in text
    assert ":smile:" in text


def test_log_lines_are_copied_to_the_file_until_the_end(tmp_path: Path) -> None:
    logger = logging.getLogger("sts_lightning.anything")
    with log_to(tmp_path / "train.log"):
        logger.warning("within: naïve")
    logger.warning("after")
    (line,) = (tmp_path / "train.log").read_text("utf-8").splitlines()
    assert line.endswith(" sts_lightning.anything: within: naïve")


def test_lightning_is_quiet_within_only() -> None:
    loggers = [logging.getLogger(f"lightning.{name}") for name in ("pytorch", "fabric")]
    before = [logger.level for logger in loggers]
    with pytest.warns(UserWarning) as caught:
        with quiet_lightning():
            assert [logger.level for logger in loggers] == [logging.WARNING] * 2
            warnings.warn("the checkpoint folder exists and is not empty.", UserWarning, stacklevel=1)
            warnings.warn("something that matters", UserWarning, stacklevel=1)
        warnings.warn("the checkpoint folder exists and is not empty.", UserWarning, stacklevel=1)
    assert [logger.level for logger in loggers] == before
    assert len([warning for warning in caught if "exists and is" in str(warning.message)]) == 1
    assert any("that matters" in str(warning.message) for warning in caught)
