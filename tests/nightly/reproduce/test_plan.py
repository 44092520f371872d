"""TableRun runs of a table, with their folders."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from sts_lightning.config.compose import compose_job
from sts_lightning.core.errors import CheckpointError, ConfigError
from sts_lightning.reproduce.plan import Cell, Table, TableRun, open_table
from sts_lightning.reproduce.run import groups
from sts_lightning.reproduce.spec import (
    Preparation,
    Requirements,
    RowSpec,
    Scale,
    Search,
    TableSpec,
    load_scale,
    load_spec,
)
from tests.conftest import CONF
from tests.support.loss_cases import masks

VARYING = ("seed=", "init_from=", "ckpt=")

SPECS = sorted((CONF / "reproduce").glob("*.yaml"))


def make(tmp_path: Path, model: str | None = None, scale: Scale | None = None, **changes: object) -> Table:
    values = {
        "title": "Toy",
        "needs": Requirements(hours=1),
        "seeds": [1, 2],
        "models": ["tiny_bert", "minilm"],
        "overrides": ["data=toy"],
        "rows": {
            "one": RowSpec(["loss=infonce", "data.kind=triplets"]),
            "two": RowSpec(["loss=pearson"], after="one", at={"minilm": ["optim.lr=1e-4"]}),
        },
    }
    return Table(TableSpec(**(values | changes)), tmp_path, model, scale)


def value(run: TableRun, key: str) -> str | None:
    return dict(text.split("=", 1) for text in run.overrides).get(key)


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_every_run_of_every_table_composes(path: Path, tmp_path: Path) -> None:
    spec = load_spec(path)
    spec.seeds, spec.models, spec.search = spec.seeds[:1], spec.models[:1], Search()
    for row in spec.rows.values():
        row.choice_of = None
    tables = [Table(spec, tmp_path)]
    if spec.models:
        scale = load_scale(CONF / "reproduce" / "scale" / "minilm.yaml")
        tables.append(Table(load_spec(path), tmp_path, "minilm", scale))
        tables[1].run_seeds = [1]
    for table in tables:
        planned = [run for group, _ in groups(table) for run in group]
        assert planned
        for run in planned:
            if run.entry == "train":  # nothing is masked, as when these scores were measured
                fixed = tuple(text for text in run.overrides if not text.startswith(VARYING))
                loss = OmegaConf.to_container(compose_job("train", fixed).loss)
                assert set(masks(loss)) <= {False}, run.overrides
        if not path.stem.endswith("minilm"):  # a published table, on the text that the papers' code reads
            assert {text_of(run) for run in planned} == {"prepared"}


def text_of(run: TableRun) -> str:
    """Text of the test sets that a run reports on; a run that starts from another takes over its text."""
    fixed = tuple(text for text in run.overrides if not text.startswith(VARYING))
    cfg = compose_job(run.entry, fixed)
    other = run.entry == "eval" and (cfg.suite != "sts" or run.after is not None)
    return "prepared" if other else str(cfg.senteval_text)


def test_a_row_starts_from_the_run_of_its_seed(tmp_path: Path) -> None:
    table = make(tmp_path)
    first, second = (table.seed_runs(Cell(row, "minilm")) for row in ("one", "two"))
    assert [run.after for run in second] == [run.folder for run in first]
    assert [value(run, "init_from") for run in second] == [str(run.folder) for run in first]
    assert [value(run, "seed") for run in second] == ["1", "2"]
    assert len({run.folder for run in (*first, *second)}) == 4


def test_each_model_has_its_own_overrides(tmp_path: Path) -> None:
    table = make(tmp_path)
    assert [value(table.seed_runs(Cell("two", m))[0], "optim.lr") for m in ("tiny_bert", "minilm")] == [
        None,
        "1e-4",
    ]


def test_a_row_with_a_model_of_its_own(tmp_path: Path) -> None:
    rows = {
        "one": RowSpec(),
        "other": RowSpec(model="tiny_llama"),
        "baseline": RowSpec(model="tiny_opt", trains=False),
    }
    cells = [(cell.row, cell.model) for cell in make(tmp_path, rows=rows).cells]
    assert cells == [
        ("one", "tiny_bert"),
        ("one", "minilm"),
        ("other", "tiny_llama"),
        ("baseline", "tiny_opt"),
    ]
    spec = make(tmp_path, rows=rows).spec
    scaled = Table(spec, tmp_path, "tiny_mistral", Scale(hours=1))
    assert [(cell.row, cell.model) for cell in scaled.cells] == [
        ("one", "tiny_mistral"),
        ("other", "tiny_mistral"),
        ("baseline", "tiny_opt"),
    ]


def test_an_evaluation_of_a_trained_row(tmp_path: Path) -> None:
    rows = {
        "one": RowSpec(["loss=infonce", "data.kind=triplets"]),
        "transfer": RowSpec(["suite=transfer"], trains=False, after="one"),
        "untuned": RowSpec(["suite=transfer"], trains=False),
    }
    table = make(tmp_path, rows=rows)
    trained, evaluated = (table.seed_runs(Cell(row, "minilm")) for row in ("one", "transfer"))
    assert [run.entry for run in evaluated] == ["eval"] * 2
    assert [value(run, "ckpt") for run in evaluated] == [str(run.folder) for run in trained]
    assert [run.after for run in evaluated] == [run.folder for run in trained]
    assert len(table.seed_runs(Cell("untuned", "minilm"))) == 1


@pytest.mark.parametrize("report", [[], ["precision=16-true"]])
def test_no_run_is_in_two_groups(report: list[str], tmp_path: Path) -> None:
    """A training that failed would otherwise run again at once."""
    planned = [run.folder for group, _ in groups(make(tmp_path, report=report)) for run in group]
    assert len(planned) == len(set(planned)) == (16 if report else 8)


def test_reports_may_be_evaluations_of_their_own(tmp_path: Path) -> None:
    """With other settings than in training, such as no quantisation."""
    rows = {
        "one": RowSpec(["loss=infonce", "data.kind=triplets"], shown=False),
        "two": RowSpec(["loss=pearson"], after="one"),
    }
    table = make(tmp_path, rows=rows, report=["precision=16-true"])
    hidden, trained = (table.trained_runs(Cell(row, "minilm")) for row in ("one", "two"))
    assert {value(run, "evaluation.final") for run in (*hidden, *trained)} == {"false"}
    assert [run.after for run in trained] == [run.folder for run in hidden]
    assert table.seed_runs(Cell("one", "minilm")) == hidden
    reported = table.seed_runs(Cell("two", "minilm"))
    assert [(run.entry, value(run, "precision")) for run in reported] == [("eval", "16-true")] * 2
    assert [run.after for run in reported] == [run.folder for run in trained]
    order = [run.folder for group, _ in groups(table) for run in group]
    assert order.index(trained[1].folder) < order.index(reported[1].folder)

    small = make(tmp_path, "minilm", Scale(hours=1), rows=rows, report=["precision=16-true"])
    assert small.seed_runs(Cell("two", "minilm")) == small.trained_runs(Cell("two", "minilm"))
    assert value(small.seed_runs(Cell("two", "minilm"))[0], "evaluation.final") is None


def test_the_untrained_row_of_mteb_has_no_prompt(tmp_path: Path) -> None:
    table = Table(load_spec(CONF / "reproduce" / "pcc_table6.yaml"), tmp_path)
    (untuned,) = table.seed_runs(Cell("untuned", "llama2_7b"))
    fixed = tuple(text for text in untuned.overrides if not text.startswith(VARYING))
    cfg = compose_job("eval", fixed)
    assert (cfg.prompt.template, cfg.model.pooling, cfg.quantization) == (None, "last_token", "none")
    (prompted,) = table.seed_runs(Cell("PromptSUM", "llama2_7b"))
    assert prompted.after == table.trained_runs(Cell("(stage 1)", "llama2_7b"))[0].folder


def test_levels_follow_what_starts_from_what(tmp_path: Path) -> None:
    levels = make(tmp_path).levels()
    assert [{cell.row for cell in level} for level in levels] == [{"one"}, {"two"}]


def test_tables_share_their_runs(tmp_path: Path) -> None:
    """The same settings are the same folder, whatever the row is called and in whatever order."""
    rows = {
        "first": RowSpec(["loss=infonce", "data.kind=triplets"]),
        "another": RowSpec(["optim.lr=1e-4", "loss=pearson"], after="first"),
    }
    ours, theirs = make(tmp_path), make(tmp_path, rows=rows)
    for one, two in (("one", "first"), ("two", "another")):
        folders = [
            [run.folder for run in t.seed_runs(Cell(n, "minilm"))] for t, n in ((ours, one), (theirs, two))
        ]
        assert folders[0] == folders[1]
    table2, table3 = (
        Table(load_spec(CONF / "reproduce" / f"pcc_table{n}.yaml"), tmp_path, CONF) for n in (2, 3)
    )
    one, two = (
        table.trained_runs(Cell(row, "mistral7b"))
        for table, row in ((table2, "PromptSUM"), (table3, "stage 1"))
    )
    assert one != two
    assert [run.folder for run in one] == [run.folder for run in two]
    assert [run.folder for run in table2.seed_runs(Cell("PromptSUM", "mistral7b"))] == [
        run.folder for run in table3.seed_runs(Cell("stage 1", "mistral7b"))
    ]


def test_preparations_are_one_for_all_seeds(tmp_path: Path) -> None:
    rows = {"two": RowSpec(["loss=pearson"], after="start")}
    table = make(
        tmp_path,
        rows=rows,
        before={"start": Preparation(["loss=infonce", "data.kind=triplets"]), "unused": Preparation()},
    )
    assert len(table.preparations()) == 2  # models
    starts = {run.after for run in table.seed_runs(Cell("two", "minilm"))}
    assert starts == {table.preparations()[1].folder}


def test_a_smaller_model_has_the_same_rows(tmp_path: Path) -> None:
    rows = {
        "one": RowSpec(["experiment=simcse_unsup", "data.batch_size=32"]),
        "large only": RowSpec(["loss=pearson"], models=["bert_base"]),
        "small only": RowSpec(["loss=pearson"], models=["tiny_bert"]),
        "other small": RowSpec(["loss=pearson"], models=["minilm"]),
    }
    scale = Scale(
        hours=0.1,
        seeds=[7],
        overrides=["data.batch_size=8", "optim.lr=1"],
        experiments={"simcse_unsup": ["optim.lr=2"]},
    )
    table = make(tmp_path, "tiny_bert", scale, rows=rows, models=["bert_base"])
    assert [cell.row for cell in table.cells] == ["one", "large only", "small only"]
    (run,) = table.seed_runs(Cell("one", "tiny_bert"))
    # The row takes precedence over the experiment's scale, which takes precedence over that of all runs.
    assert [value(run, key) for key in ("model", "seed", "data.batch_size", "optim.lr")] == [
        "tiny_bert",
        "7",
        "32",
        "2",
    ]
    original = make(tmp_path, rows=rows, models=["bert_base"])
    assert [cell.row for cell in original.cells] == ["one", "large only"]


def test_the_choice_by_dev_comes_first(tmp_path: Path) -> None:
    search = Search({"low": ["optim.lr=1e-9"], "high": ["optim.lr=1e-3"]}, ["trainer.max_steps=8"])
    table = make(tmp_path, search=search, models=["minilm"])
    cell = Cell("one", "minilm")
    with pytest.raises(CheckpointError, match="not a finished run"):
        table.seed_runs(cell)
    for dev, (_, run) in zip((70.0, 60.0), table.search_runs(cell).items(), strict=True):
        run.folder.mkdir(parents=True)
        (run.folder / "metrics.json").write_text(json.dumps({"dev": {"spearman": dev}, "test": None}))
    assert table.chosen(cell) == "low"
    assert [value(run, "optim.lr") for run in table.seed_runs(cell)] == ["1e-9", "1e-9"]
    assert value(table.seed_runs(cell)[0], "trainer.max_steps") is None


def test_a_mistake_names_the_row(tmp_path: Path) -> None:
    table = make(tmp_path, rows={"one": RowSpec(["optim.lrr=1"])})
    with pytest.raises(ConfigError, match=r"Toy, one: .*lrr"):
        table.seed_runs(table.cells[0])


def test_a_row_of_published_weights_is_left_out_at_another_scale(tmp_path: Path) -> None:
    rows = {"checkpoint": RowSpec([], trains=False, scaled=False), "trained": RowSpec(["loss=pearson"])}
    assert {cell.row for cell in make(tmp_path, rows=rows).cells} == {"checkpoint", "trained"}
    scaled = make(tmp_path, "minilm", Scale(hours=1), rows=rows)
    assert scaled.cells == [Cell("trained", "minilm")]


@pytest.mark.parametrize("name", ["pcc_table8", "pcc_v1_table6", "regression_table3"])
def test_the_count_is_that_of_the_plan(name: str, tmp_path: Path) -> None:
    table = open_table(name, None, tmp_path)
    assert table.count() == len({run.folder for group, _ in groups(table) for run in group})
