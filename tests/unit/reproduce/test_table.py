"""Tables from their files to the jobs of a sweep."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from sts_lightning.config.compose import compose_job
from sts_lightning.config.folders import files_of
from sts_lightning.core.errors import ConfigError
from sts_lightning.reproduce.table import Cell, Row, Run, Table, TableSpec, load_spec, open_table


@pytest.fixture
def conf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's folder of tables."""
    folder = tmp_path / "conf" / "reproduce"
    folder.mkdir(parents=True)
    (tmp_path / "conf" / "sts_lightning").touch()
    monkeypatch.chdir(tmp_path)
    return folder


def make(tmp_path: Path, scale: str | None = None, **changes: Any) -> Table:
    values: dict[str, Any] = {
        "title": "Toy",
        "seeds": [1, 2],
        "models": ["tiny_bert", "minilm"],
        "overrides": ["data=toy"],
        "rows": {
            "one": Row(["loss=infonce", "data.kind=triplets"]),
            "two": Row(["loss=pearson", "init_from=row:one"], at={"minilm": ["optim.lr=1e-4"]}),
        },
    }
    return Table("toy", TableSpec(**(values | changes)), tmp_path, scale)


def value(run: Run, key: str) -> str | None:
    return dict(text.split("=", 1) for text in run.overrides).get(key)


def test_every_table_of_the_package() -> None:
    for name, path in files_of("reproduce").items():
        spec = load_spec(name)
        assert len(set(spec.seeds)) == len(spec.seeds) >= 1
        assert path.read_text().startswith(("# make reproduce-", f"# make reproduce TABLE={name}\n"))
        cells = [cell for cell in Table(name, spec, Path("runs")).cells if cell.model]
        for model, systems in spec.published.items():
            if model != "cited":
                assert {cell.row for cell in cells if cell.model == model} >= systems.keys(), name
        if len(spec.columns) == 8 and spec.columns[-1] == "average":
            _check_averages(spec)


def _check_averages(spec: TableSpec) -> None:
    """A slip of the pen in one of the eight numbers of a row would show in their mean."""
    printed_so = {"Sentence-BERT": 74.89, "PromCSE-BERT-base": 81.81}  # not the mean of the printed scores
    for systems in spec.published.values():
        for name, values in systems.items():
            if values[7] != printed_so.get(name):
                assert values[7] == pytest.approx(sum(values[:7]) / 7, abs=0.0151), name


def test_published_values_are_those_of_the_papers() -> None:
    table2 = load_spec("pcc_table2")
    assert table2.published["mistral7b"]["Pcc-tuning (SUM)"][-1] == 87.86
    assert table2.published["llama2_7b"]["AnglE"][0] == 79.00
    # The same runs occur in several tables.
    for other, row in (("pcc_table3", "+ Pearson"), ("pcc_table5", "SUM, stage 2")):
        values = load_spec(other).published
        for model in ("opt6_7b", "llama7b", "llama2_7b", "mistral7b"):
            assert values[model][row] == table2.published[model]["Pcc-tuning (SUM)"][-1:]
    # The first version's Table 1, without SuCLSE, which is cited.
    first = load_spec("pcc_v1_table1").published
    assert {model: list(rows) for model, rows in first.items() if model != "cited"} == {
        "bert_base": ["SimCSE", "PromptBERT", "PromCSE"],
        "llama2_7b": ["SimCSE, no template", "PromptEOL", "AnglE", "DeeLM"],
        "llama2_7b_prefix": ["PromCSE, prefix"],
        "mistral7b": ["PromptEOL", "PromptSTH", "PromptSUM"],
    }
    spread, rank = load_spec("rank_table3"), load_spec("rank_table2")
    assert list(spread.rows) == [name for name in rank.rows if "checkpoint" not in name]
    assert spread.published["bert_base"]["SimCSE"] == [0.81]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("title: x\nrows: {a: []}\nsedes: 3", "sedes"),
        ("rows: {a: []}", "title"),
        ("title: x", "rows"),
        ("title: x\nrows: {a: {trian: []}}", "rows.a.trian"),
        ("title: x\nseeds: [one]\nrows: {a: []}", "seeds"),
        ("title: [x", "cannot be read"),
        ("- title", "must hold keys and values"),
    ],
)
def test_mistakes_are_named(text: str, message: str, conf: Path) -> None:
    (conf / "table.yaml").write_text(text)
    with pytest.raises(ConfigError, match=message):
        load_spec("table")


def test_an_unknown_table_lists_the_others(conf: Path) -> None:
    (conf / "mine.yaml").write_text("title: My losses\nlike: losses_minilm\nseeds: [7]\n")
    table = open_table("mine", "minilm", Path("runs"))
    assert table.seeds == [1, 2, 3]
    assert (table.spec.title, table.spec.seeds) == ("My losses", [7])
    assert list(table.spec.rows) == list(load_spec("losses_minilm").rows)
    with pytest.raises(ConfigError, match=r"there is no table mein; there are: .*mine.*pcc_table3"):
        open_table("mein", None, Path("runs"))
    with pytest.raises(ConfigError, match="there is no scale huge; there are: minilm"):
        open_table("mine", "huge", Path("runs"))


def test_a_table_may_be_like_one_that_is_like_another(conf: Path) -> None:
    (conf / "a.yaml").write_text(
        "title: a\nmodels: [m, n]\ncolumns: [dev]\nrows: {one: [x=1], two: {train: [y=1], at: {m: [z=1]}}}\n"
        "published: {m: {one: [1.0], two: [2.0]}, n: {two: [3.0]}}\n"
    )
    (conf / "b.yaml").write_text("like: a\nrows: {one: null, two: [y=2]}\npublished: {m: {one: null}}\n")
    (conf / "c.yaml").write_text("title: c\nlike: b\nseeds: [3]\nrows: {three: {eval: []}}\n")
    spec = load_spec("c")
    assert (spec.title, spec.seeds, spec.models, list(spec.rows)) == ("c", [3], ["m", "n"], ["two", "three"])
    assert (spec.rows["two"].train, spec.rows["two"].at) == (["y=2"], {"m": ["z=1"]})
    assert spec.published == {"m": {"two": [2.0]}, "n": {"two": [3.0]}}


def test_a_name_with_a_sweep_is_several_rows(conf: Path) -> None:
    (conf / "a.yaml").write_text(
        "title: a\nrows:\n  'head of {loss=mse,l1}': {train: [x=1], once: true, shown: false}\n"
        "  '{loss=mse,l1}, {k=1,0.5}': [x=2, 'init_from=row:head of {loss}']\n"
        "  'of {suite=a,b}': {eval: []}\n"
    )
    rows = load_spec("a").rows
    assert list(rows) == [
        *("head of mse", "head of l1", "mse, 1", "mse, 0.5", "l1, 1", "l1, 0.5", "of a", "of b"),
    ]
    assert rows["l1, 0.5"].train == ["x=2", "init_from=row:head of l1", "loss=l1", "k=0.5"]
    assert (rows["head of l1"].train, rows["head of l1"].once) == (["x=1", "loss=l1"], True)
    assert rows["of b"].eval == ["suite=b"]
    (conf / "b.yaml").write_text("like: a\ntitle: b\nrows: {of a: null, 'l1, 1': [y=1]}\n")
    rows = load_spec("b").rows
    assert (rows["l1, 1"].train, "of a" in rows) == (["y=1"], False)


@pytest.mark.parametrize(
    ("start", "what"),
    [
        ("one", "rows.two starts from one, to start from it"),
        ("two", "rows.two starts from two, to start from it"),
        ("three", "rows.two starts from three, no row"),
    ],
)
def test_a_row_that_cannot_start_is_named(start: str, what: str, tmp_path: Path) -> None:
    rows = {"one": Row(["init_from=row:two"]), "two": Row([f"init_from=row:{start}"])}
    with pytest.raises(ConfigError, match=f"conf/reproduce/toy.yaml: {what}") as caught:
        make(tmp_path, rows=rows).all_runs()
    assert caught.value.key == "rows.two"


def test_a_row_has_the_models_for_which_it_is_published(tmp_path: Path) -> None:
    rows = {
        "all": Row(["loss=pearson"]),
        "published": Row(["loss=pearson"]),
        "small": Row(["loss=pearson"], models=["tiny_llama"]),
        "checkpoint": Row(eval=[], scaled=False),
        "hidden": Row([], shown=False),
    }
    published = {"minilm": {"published": []}, "cited": {"all": []}}
    table = make(tmp_path, rows=rows, published=published)
    assert [tuple(cell) for cell in table.cells] == [
        ("all", "tiny_bert"),
        ("checkpoint", "tiny_bert"),
        ("all", "minilm"),
        ("published", "minilm"),
        ("checkpoint", "minilm"),
    ]
    scaled = make(tmp_path, "tiny_llama", rows=rows, published=published)
    assert [tuple(cell) for cell in scaled.cells] == [
        (name, "tiny_llama") for name in ("all", "published", "small")
    ]
    assert make(tmp_path, models=[]).cells == [Cell("one"), Cell("two")]


def test_a_row_starts_from_the_run_of_its_seed(tmp_path: Path) -> None:
    table = make(tmp_path)
    first, second = (table.runs(Cell(row, "minilm")) for row in ("one", "two"))
    assert [run.start for run in second] == first
    assert [value(run, "seed") for run in second] == ["1", "2"]
    assert [value(table.runs(Cell("two", model))[0], "optim.lr") for model in ("tiny_bert", "minilm")] == [
        None,
        "1e-4",
    ]
    jobs, grid = table.jobs()
    every = [each.job for each in grid.jobs.values()]
    assert len({job.folder for job in every}) == len(every) == 8
    for one, two in zip(first, second, strict=True):
        assert jobs[two].overrides[-1] == f"init_from={jobs[one].folder}"
        assert jobs[two].needs == (jobs[one].folder,)
        assert every.index(jobs[one]) < every.index(jobs[two])


def test_a_run_for_all_seeds(tmp_path: Path) -> None:
    rows = {
        "start": Row(["loss=infonce", "data.kind=triplets"], once=True, shown=False),
        "two": Row(["loss=pearson", "init_from=row:start"]),
    }
    runs = make(tmp_path, models=["minilm"], rows=rows).all_runs()
    assert [(run.start is not None, value(run, "seed")) for run in runs] == [
        (False, None),
        (True, "1"),
        (True, "2"),
    ]


def test_evaluations_of_rows_and_of_models(tmp_path: Path) -> None:
    rows = {
        "one": Row(["loss=infonce", "data.kind=triplets"], shown=False),
        "transfer": Row(eval=["suite=transfer", "ckpt=row:one"]),
        "untuned": Row(eval=["suite=transfer"]),
    }
    table = make(tmp_path, models=["minilm"], rows=rows)
    jobs, _ = table.jobs()
    evaluated = table.runs(Cell("transfer", "minilm"))
    assert [(run.entry, Path(jobs[run].script).name) for run in evaluated] == [("eval", "eval.py")] * 2
    for run in evaluated:
        assert run.start is not None
        assert jobs[run].overrides[-1] == f"ckpt={jobs[run.start].folder}"
    assert [run.overrides for run in table.runs(Cell("untuned", "minilm"))] == [
        ("model=minilm", "suite=transfer")
    ]


def test_reports_may_be_evaluations_of_their_own(tmp_path: Path) -> None:
    """With other settings than in training, such as no quantisation."""
    table = make(tmp_path, models=["minilm"], report=["precision=16-true"])
    reported = table.runs(Cell("two", "minilm"))
    assert [(run.entry, run.overrides) for run in reported] == [("eval", ("precision=16-true",))] * 2
    trained = [run.start for run in reported]
    assert [value(run, "evaluation.final") for run in trained if run] == ["false"] * 2
    assert len(table.all_runs()) == 8
    small = make(tmp_path, "minilm", models=["tiny_bert"], report=["precision=16-true"])
    assert [run.entry for run in small.runs(Cell("two", "minilm"))] == ["train"] * 3


def test_the_last_override_of_a_key_takes_precedence(tmp_path: Path) -> None:
    rows = {"one": Row(["loss=pearson", "optim.lr=3"], at={"minilm": ["optim.lr=4"]})}
    shared = {"overrides": ["data=toy", "optim.lr=1", "prompt=sum"], "at": {"minilm": ["prompt=none"]}}
    table = make(tmp_path, models=["minilm"], rows=rows, **shared)
    assert table.runs(table.cells[0])[0].overrides == (
        *("data=toy", "optim.lr=4", "prompt=none", "model=minilm", "loss=pearson", "seed=1"),
    )


def test_a_scale_is_weaker_than_a_row_and_stronger_than_an_experiment() -> None:
    def settings(*overrides: str) -> tuple[Any, ...]:
        cfg = compose_job("train", ("scale=minilm", "model=minilm", *overrides))
        return cfg.data.batch_size, cfg.optim.lr, cfg.trainer.max_steps, cfg.model.pooling, cfg.precision

    assert settings("experiment=pcc_stage1") == (96, 2e-5, 100, "mean", "auto")
    assert settings("experiment=pcc_stage1", "data.batch_size=8") == (8, 2e-5, 100, "mean", "auto")
    assert settings("experiment=promptbert") == (64, 1e-5, 60, "mask_token", "auto")
    assert settings("experiment=demo")[3:] == ("mean", "auto")  # one that the scale does not name


def test_tables_share_their_runs(tmp_path: Path) -> None:
    """The same settings are the same folder, whatever the row is called and in whatever order."""
    rows = {
        "first": Row(["data.kind=triplets", "loss=infonce"]),
        "another": Row(["optim.lr=1e-4", "loss=pearson", "init_from=row:first"]),
    }
    ours, theirs = make(tmp_path, models=["minilm"]), make(tmp_path, models=["minilm"], rows=rows)
    assert list(ours.jobs()[1].jobs) == list(theirs.jobs()[1].jobs)


def test_a_row_may_start_from_an_experiment(tmp_path: Path) -> None:
    """Its first run is that of the row with the same settings, which is trained once."""
    rows = {
        "stage 2": Row(["experiment=pcc_stage2", "init_from=experiment:pcc_stage1"]),
        "stage 1": Row(["experiment=pcc_stage1"]),
        "from row": Row(["experiment=pcc_stage2", "init_from=row:stage 1"]),
    }
    shared = {"models": ["llama7b"], "overrides": ["prompt=sum"], "report": ["precision=16-true"]}
    table = make(tmp_path, seeds=[1], rows=rows, **shared)
    jobs, grid = table.jobs()
    every = [each.job for each in grid.jobs.values()]
    trained = {run.start: jobs[run.start] for run in jobs if run.start is not None and run.entry == "eval"}
    second, first, other = trained.values()
    assert second is other
    assert second.needs == (first.folder,)
    assert len(every) == 4  # two trainings, and the report of each
    assert every[0] is first


@pytest.mark.parametrize("model", ["bert_base", "roberta_base"])
@pytest.mark.parametrize(("plain", "zoned"), [("L1", "Translated ReLU"), ("MSE", "Smooth K2")])
def test_a_penalty_and_its_zone_differ_in_nothing_else(model: str, plain: str, zoned: str) -> None:
    table = open_table("regression_table1", None, Path("runs"))
    settings = []
    for row in (plain, zoned):
        cfg = compose_job("train", table.runs(Cell(row, model))[0].overrides)
        kept = {key: cfg[key] for key in cfg if key not in ("loss", "hydra")}
        settings.append(OmegaConf.to_container(OmegaConf.create(kept)))
    assert settings[0] == settings[1]


def test_a_mistake_names_the_run(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"job data=toy .*optim.lrr=1.*: optim.lrr: no such setting"):
        make(tmp_path, models=["minilm"], rows={"one": Row(["optim.lrr=1"])}).jobs()
