from __future__ import annotations

from pathlib import Path

import pytest
from omegaconf import OmegaConf

from sts_lightning.config.compose import compose_job
from sts_lightning.core.errors import ConfigError
from sts_lightning.reproduce.plan import Cell, Table, open_table
from sts_lightning.reproduce.spec import load_scale, load_spec
from tests.conftest import CONF

SPECS = sorted((CONF / "reproduce").glob("*.yaml"))


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_every_spec_reads(path: Path) -> None:
    spec = load_spec(path)
    assert spec.rows
    assert len(set(spec.seeds)) == len(spec.seeds) >= 1
    assert path.read_text().startswith(("# make reproduce-", f"# make reproduce TABLE={path.stem}\n"))


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_published_averages_are_those_of_their_sets(path: Path) -> None:
    """A slip of the pen in one of the eight numbers of a row would show in their mean."""
    printed_so = {"Sentence-BERT": 74.89, "PromCSE-BERT-base": 81.81}  # not the mean of the printed scores
    spec = load_spec(path)
    if len(spec.columns) == 8 and spec.columns[-1] == "average":
        for systems in spec.published.values():
            for name, values in systems.items():
                if values[7] == printed_so.get(name):
                    continue
                assert values[7] == pytest.approx(sum(values[:7]) / 7, abs=0.0151), name


def test_published_values_are_those_of_the_papers() -> None:
    table2 = load_spec(CONF / "reproduce" / "pcc_table2.yaml")
    assert table2.published["mistral7b"]["Pcc-tuning (SUM)"][-1] == 87.86
    assert table2.published["llama2_7b"]["AnglE"][0] == 79.00
    # The same runs occur in several tables.
    for other, row in (("pcc_table3", "+ Pearson"), ("pcc_table5", "SUM, stage 2")):
        values = load_spec(CONF / "reproduce" / f"{other}.yaml").published
        for model in table2.rows["Pcc-tuning (SUM)"].models:
            assert values[model][row] == table2.published[model]["Pcc-tuning (SUM)"][-1:]
    like = load_spec(CONF / "reproduce" / "rank_table3.yaml")
    # The first version's Table 1, without SuCLSE, which is cited.
    first = load_spec(CONF / "reproduce" / "pcc_v1_table1.yaml").published
    assert {model: list(rows) for model, rows in first.items() if model != "cited"} == {
        "bert_base": ["SimCSE", "PromptBERT", "PromCSE"],
        "llama2_7b": ["SimCSE, no template", "PromptEOL", "AnglE", "DeeLM"],
        "llama2_7b_prefix": ["PromCSE, prefix"],
        "mistral7b": ["PromptEOL", "PromptSTH", "PromptSUM"],
    }
    table2 = load_spec(CONF / "reproduce" / "rank_table2.yaml")
    assert list(like.rows) == [name for name in table2.rows if "checkpoint" not in name]
    assert like.published["bert_base"]["SimCSE"] == [0.81]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("title: x\nseeds: [1]\nrows: {a: {}}\nsedes: 3", "sedes"),
        ("title: x\nrows: {a: {}}", "needs.hours is required"),
        ("title: x\nneeds: {hours: 1}\nrows: {a: {}}", "seeds is required"),
        ("title: x\nneeds: {hours: 1}\nseeds: [one]\nrows: {a: {}}", "seeds"),
        ("title: x\nneeds: {hours: 1}\nseeds: [1]", "rows is required"),
        (
            "title: x\nneeds: {hours: 1}\nseeds: [1]\nrows: {a: {after: b}}",
            "rows.a.after is b, not among before",
        ),
        (
            "title: x\nneeds: {hours: 1}\nseeds: [1]\nrows: {a: {after: a}}",
            "rows.a.after is a, not among before",
        ),
        (
            "title: x\nneeds: {hours: 1}\nseeds: [1]\nrows: {a: {}}\nbaselines: [c]",
            "baselines names c, not among rows",
        ),
        (
            "title: x\nneeds: {hours: 1}\nseeds: [1]\nrows: {a: {}}\npublished: {m: {b: []}}",
            "published.m.b is not among rows",
        ),
        (
            "title: x\nneeds: {hours: 1}\nseeds: [1]\nrows: {a: {}}\npublished: {m: {a: [1.0, 2.0]}}",
            "published.m.a has 2 values, and there are 0 columns",
        ),
        ("title: [x", "cannot be read"),
        ("- title", "must hold keys and values"),
    ],
)
def test_mistakes_are_named(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "table.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message):
        load_spec(path)


@pytest.mark.parametrize(
    ("more", "key"),
    [
        ("published: {cited: {b: []}}", "why.b"),
        ("published: {cited: {b: []}}\nwhy: {b: ' '}", "why.b"),
    ],
)
def test_a_cited_row_says_why_it_is_not_run(more: str, key: str, tmp_path: Path) -> None:
    path = tmp_path / "table.yaml"
    path.write_text(f"title: x\nneeds: {{hours: 1}}\nseeds: [1]\nrows: {{a: {{}}}}\n{more}")
    with pytest.raises(ConfigError) as error:
        load_spec(path)
    assert error.value.key == key


def test_an_unknown_table_lists_the_others(tmp_path: Path) -> None:
    (tmp_path / "one.yaml").write_text("title: x")
    with pytest.raises(ConfigError, match=r"there is no table two; there are: .*, one, pcc_table1"):
        load_spec(tmp_path / "two.yaml")
    with pytest.raises(ConfigError, match="there is no scale huge; there are: minilm"):
        load_scale(CONF / "reproduce" / "scale" / "huge.yaml")


def test_a_table_may_be_like_one_that_is_like_another(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(
        "title: a\nneeds: {hours: 1}\nseeds: [1, 2]\nmodels: [m]\nrows: {one: {}}\n"
    )
    (tmp_path / "b.yaml").write_text("title: b\nlike: a\nrows: {two: {}}\n")
    (tmp_path / "c.yaml").write_text("title: c\nlike: b\nseeds: [3]\nrows: {three: {}}\n")
    spec = load_spec(tmp_path / "c.yaml")
    assert (spec.title, spec.seeds, spec.models, list(spec.rows)) == (
        "c",
        [3],
        ["m"],
        ["one", "two", "three"],
    )


def test_a_table_leaves_out_rows_of_its_base(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(
        "title: a\nneeds: {hours: 1}\nseeds: [1]\nmodels: [m, n]\ncolumns: [dev]\nrows: {one: {}, two: {}}\n"
        "published: {m: {one: [1.0], two: [2.0]}, n: {two: [3.0]}}\n"
    )
    (tmp_path / "b.yaml").write_text("title: b\nlike: a\nrows: {one: null}\npublished: {m: {one: null}}\n")
    spec = load_spec(tmp_path / "b.yaml")
    assert list(spec.rows) == ["two"]
    assert spec.published == {"m": {"two": [2.0]}, "n": {"two": [3.0]}}


@pytest.mark.parametrize("model", ["bert_base", "roberta_base"])
@pytest.mark.parametrize(("plain", "zoned"), [("L1", "Translated ReLU"), ("MSE", "Smooth K2")])
def test_a_penalty_and_its_zone_differ_in_nothing_else(
    model: str, plain: str, zoned: str, tmp_path: Path
) -> None:
    table = open_table("regression_table1", None, tmp_path)
    settings = []
    for row in (plain, zoned):
        cfg = compose_job("train", table.trained_runs(Cell(row, model))[0].overrides)
        kept = {key: cfg[key] for key in cfg if key not in ("loss", "hydra")}
        settings.append(OmegaConf.to_container(OmegaConf.create(kept)))
    assert settings[0] == settings[1]


def test_the_runs_of_a_table_are_counted(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(
        "title: a\nneeds: {hours: 1}\nseeds: [1, 2, 3]\nmodels: [m, n]\nreport: [precision=32-true]\n"
        "search: {candidates: {low: [], high: []}}\nbefore: {head: {}, unused: {}}\nrows:\n"
        "  untuned: {trains: false}\n"  # 1 run of each model
        "  one: {shown: false}\n"  # 2 of the search and 3 trainings
        "  two: {after: head, models: [m]}\n"  # the head, 2 of the search, 3 trainings and 3 reports
        "  three: {after: one, choice_of: one}\n"  # 3 trainings and 3 reports
        "  tested: {after: one, trains: false}\n"  # 3
    )
    table = Table(load_spec(tmp_path / "a.yaml"), tmp_path)
    assert table.count() == 2 * 1 + 2 * 5 + 9 + 2 * 6 + 2 * 3
