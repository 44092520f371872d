"""What the columns of the user's file decide."""

from __future__ import annotations

import logging
import shlex
from pathlib import Path

import pytest

from sts_lightning.cli.hydra_app import with_choices
from sts_lightning.config.by_file import choose_by_file
from sts_lightning.config.compose import check_choices, compose_train
from sts_lightning.core.errors import ConfigError, DataError

ROWS = [(f"How does the {name} grow?", f"It takes {name} a year, mostly.") for name in "abcdefghij"]
CLASSES = [f"{first},{'fruit' if number % 2 else 'tree'}" for number, (first, _) in enumerate(ROWS)]


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pairs = [f'{first},"{second}"' for first, second in ROWS]
    scored = [f"{text},{number / 9:.2f}" for number, text in enumerate(pairs)]
    Path("parts").mkdir()
    for name, header, lines in (
        ("qa.csv", "question,answer", pairs),
        ("more.csv", "question,answer", pairs),
        ("scored.csv", "sentence1,sentence2,score", scored),
        ("rated.csv", "first text,second,rating", scored),
        ("intents.csv", "text,label", CLASSES),
        ("parts/a.csv", "question,answer", pairs),
        ("parts/b.csv", "question,answer", pairs),
        ("owner/name.v2", "question,answer", pairs),
    ):
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text("\n".join([header, *lines, ""]))
    Path("texts.txt").write_text("A sentence.\nAnother.\n")
    Path("hub.json").write_text("[]")


RATED = ["data=pairs_file", "loss=pearson", "data.columns=[first text,second,rating]"]
SCORED = ["data=pairs_file", "loss=pearson"]
TRIPLETS = ["data=triplets_file", "loss=infonce"]


@pytest.mark.parametrize(
    ("typed", "added"),
    [
        ("path=scored.csv", SCORED),
        ("path=rated.csv", RATED),
        ("path=qa.csv", TRIPLETS),
        ("path=intents.csv", ["data=labels_file", "loss=infonce"]),
        # Choices that are typed.
        ("path=qa.csv loss=gist", ["data=triplets_file"]),
        ("path=qa.csv loss=pearson", ["data=triplets_file"]),
        ("path=qa.csv -m loss=gist,infonce", ["data=triplets_file"]),
        ("path=scored.csv data=pairs_file", []),
        ("path=qa.csv data=pairs_file,triplets_file -m", []),
        ("path=qa.csv experiment=minilm_nli", []),
        ("path=qa.csv debug=fast model=tiny_bert seed=1", TRIPLETS),
        # Columns that are typed.
        ("path=rated.csv 'data.columns=[first text,second]'", TRIPLETS),
        ("path=rated.csv 'data.columns=[second,first text,rating]'", SCORED),
        ("path=qa.csv data.columns=[answer,question],[question,answer] -m", TRIPLETS),
        ("path=qa.csv data.columns=null", TRIPLETS),
        # Several files.
        ("path=[qa.csv,more.csv]", TRIPLETS),
        ("'path=parts/*.csv'", TRIPLETS),
        ("'path={qa.csv: 1, parts/*.csv: 0.3}'", TRIPLETS),
        ("path=qa.csv,more.csv -m", TRIPLETS),
        ("path=[qa.csv,more.csv],[parts/a.csv] --multirun", TRIPLETS),
        # Nothing to read.
        ("seed=1", []),
        ("path=null", []),
        ("path=owner/other", []),
        ("path=parts", []),
        ("path=hub.json", []),
        ("'path=${oc.env:HOME}/qa.csv'", []),
        ("path=", []),
        ("path=owner/name.v2", None),
    ],
)
def test_the_columns_decide_what_is_not_typed(typed: str, added: list[str] | None) -> None:
    words = shlex.split(typed)
    if added is None:  # such a file is there, and its end is unknown
        with pytest.raises(DataError):
            choose_by_file(words)
        return
    assert choose_by_file(words) == added
    if any(text.startswith("data=") for text in added):
        assert choose_by_file([*words, *added]) == [], "a job of the command decides nothing"
        check_choices([*words, *added])


@pytest.mark.parametrize(
    ("typed", "error", "said"),
    [
        ("path=[qa.csv,scored.csv]", DataError, "qa.csv has rows of .*, scored.csv scored pairs; one run"),
        ("-m path=intents.csv,qa.csv", DataError, "intents.csv has texts with classes, qa.csv rows"),
        ("path=texts.txt", ConfigError, "texts.txt has .* add experiment=simcse_unsup data=sentences_file"),
        ("path=none.csv", DataError, "none.csv: cannot be read"),
        ("'path=none/*.csv'", DataError, r"no file matches none/\*.csv"),
    ],
)
def test_what_cannot_be_decided(typed: str, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said) as caught:
        choose_by_file(shlex.split(typed))
    assert caught.value.key == "path"  # type: ignore[attr-defined]


def test_one_line_says_what_and_what_to_type_instead(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        choose_by_file(["path=[qa.csv,more.csv]"])
        choose_by_file(["path=rated.csv", "loss=cosent"])
    rows, scored = caplog.messages
    assert rows.startswith("qa.csv and 1 more: rows of an anchor and what is similar to it")
    assert rows.endswith(
        ": data=triplets_file loss=infonce; "
        "type another data=, loss= or data.columns=[...] to choose yourself"
    )
    assert "loss=" not in scored
    assert scored.endswith("; type another data= or data.columns=[...] to choose yourself")


def test_the_choice_names_the_run_and_keeps_columns() -> None:
    typed = ["path=rated.csv", "model=tiny_bert"]
    run = compose_train([*typed, *choose_by_file(typed)])
    assert run.name == "pairs_file-pearson-tiny_bert"
    assert list(run.data.columns) == ["first text", "second", "rating"]


@pytest.mark.parametrize("typed", ["path=qa.csv seed=1,2 -m", "seed=1,2 +path=qa.csv plan=true -m"])
def test_a_command_is_completed_among_its_settings(typed: str) -> None:
    """Hydra's parser takes all settings in a row."""
    completed = ["data=triplets_file", "loss=infonce", *typed.split()]
    assert with_choices(typed.split()) == completed
    assert with_choices(completed) == completed  # jobs and Lightning's processes repeat the command
