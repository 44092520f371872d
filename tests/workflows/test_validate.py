"""A corpus of bad input: each row is rejected by one message that names the key, or the file and the line.

Rows of settings go through `train_in` and `evaluate_in` with no weights to load, which also shows that they
are found before any is loaded and before anything is written.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from omegaconf import DictConfig

from sts_lightning.cli import hydra_app as app
from sts_lightning.cli.ceiling import read_golds, report_ceilings
from sts_lightning.cli.main import main
from sts_lightning.data.pairs_file import PairsFileData
from sts_lightning.data.readers.senteval import load_sickr, load_stsb
from sts_lightning.errors import CheckpointError, ConfigError, DataError, TrainingError, UserError
from sts_lightning.evaluation.bootstrap import paired_difference
from sts_lightning.evaluation.sts import encode_pairs
from sts_lightning.evaluation.suites import UnitVectors
from sts_lightning.losses.cosent import CoSENTLoss
from sts_lightning.losses.energy import EnergyLoss
from sts_lightning.losses.infonce import InfoNCELoss
from sts_lightning.regularizers.rank_reduction import RankReduction
from sts_lightning.runs.folder import RunFolder
from sts_lightning.runs.predictions import load_predictions
from sts_lightning.workflows import evaluate, train
from sts_lightning.workflows.evaluate import evaluate_in
from sts_lightning.workflows.train import train_in
from tests.conftest import CONF, SHORT_DATA, SHORT_RUN

Config = Callable[..., DictConfig]

PREDICTIONS = "predictions.npz"

TRIPLETS = ["loss=infonce", "data.kind=triplets"]
MIX = ["loss=mix", "+loss.terms.a._target_=sts_lightning.losses.pearson.PearsonLoss"]

SETTINGS: list[tuple[list[str], str]] = [
    # NaN and infinity
    (["optim.lr=nan"], "optim.lr"),
    (["optim.lr=inf"], "optim.lr"),
    (["optim.lr='nan'"], "optim.lr"),
    (["optim.head_lr=inf"], "optim.head_lr"),
    (["optim.weight_decay=inf"], "optim.weight_decay"),
    (["optim.layer_decay=nan"], "optim.layer_decay"),
    (["optim.betas=[nan,0.9]"], "optim.betas.0"),
    (["optim.eps=inf"], "optim.eps"),
    (["optim.warmup=inf"], "optim.warmup"),
    (["trainer.val_every=nan"], "trainer.val_every"),
    (["trainer.val_every=inf"], "trainer.val_every"),
    (["trainer.gradient_clip_val=nan"], "trainer.gradient_clip_val"),
    (["trainer.gradient_clip_val=inf"], "trainer.gradient_clip_val"),
    (["trainer.micro_batch_size=nan"], "trainer.micro_batch_size"),
    (["+trainer.extra.max_time=inf"], "trainer.extra.max_time"),
    (["queue.momentum=nan"], "queue.momentum"),
    (["data.repetition=nan"], "data.repetition"),
    ([*TRIPLETS, "loss.temperature=nan"], "loss.temperature"),
    ([*TRIPLETS, "loss.temperature=inf"], "loss.temperature"),
    ([*TRIPLETS, "loss.hard_negative_weight=inf"], "loss.hard_negative_weight"),
    (["loss=angle", "loss.scale=nan"], "loss.scale"),
    (["loss=l1", "loss.spacing=inf"], "loss.spacing"),
    ([*MIX, "+loss.weights.a=nan"], "loss.weights.a"),
    (["regularizer=rank_reduction", "regularizer.coefficient=nan"], "regularizer.coefficient"),
    (["callbacks=ema", "callbacks.ema.decay=nan"], "callbacks.ema.decay"),
    (["callbacks=early_stopping", "+callbacks.early_stopping.min_delta=inf"], "early_stopping.min_delta"),
    (["model.dropout=nan"], "model.dropout"),
    # Ranges
    (["seed=-1"], "seed"),
    (["seed=4294967296"], "seed"),
    (["seed=99999999999999999999"], "seed"),
    (["trainer.gradient_clip_val=-1"], "trainer.gradient_clip_val"),
    (["trainer.gradient_clip_val=0"], "trainer.gradient_clip_val"),
    (["trainer.max_steps=-5"], "trainer.max_steps"),
    (["trainer.max_steps=0"], "trainer.max_steps"),
    (["trainer.max_epochs=-7"], "trainer.max_epochs"),
    (["trainer.max_epochs=0"], "trainer.max_epochs"),
    (["trainer.max_epochs=-1"], "trainer.max_epochs and trainer.max_steps"),
    (["trainer.limit_train_batches=0"], "trainer.limit_train_batches"),
    (["trainer.limit_train_batches=-3"], "trainer.limit_train_batches"),
    (["trainer.val_every=0"], "trainer.val_every"),
    (["trainer.val_every=-0.5"], "trainer.val_every"),
    (["trainer.val_every=1.5"], "trainer.val_every"),
    (["trainer.micro_batch_size=true"], "trainer.micro_batch_size"),
    (["trainer.micro_batch_size=0"], "trainer.micro_batch_size"),
    (["trainer.micro_batch_size=2.0"], "trainer.micro_batch_size"),
    (["trainer.log_every_n_steps=0"], "trainer.log_every_n_steps"),
    (["trainer.chunk_tokens=-1"], "trainer.chunk_tokens"),
    (["optim.betas=[0.9]"], "optim.betas"),
    (["optim.betas=[0.9,0.99,0.999]"], "optim.betas"),
    (["optim.betas=[-0.1,0.9]"], "optim.betas"),
    (["optim.warmup=1.5"], "optim.warmup"),
    (["queue.size=-1"], "queue.size"),
    ([*TRIPLETS, "queue.size=8", "queue.momentum=1"], "queue.momentum"),
    (["data.num_workers=-1"], "data.num_workers"),
    (["data.batch_size=1"], "data.batch_size"),
    (["data.train_size=0"], "data.train_size"),
    (["loss=infonce", "data.kind=sentences", "data.views=5"], "data.views"),
    (["loss=infonce", "data.kind=sentences", "data.repetition=1.5"], "data.repetition"),
    ([*TRIPLETS, "loss.temperature=0"], "loss.temperature"),
    ([*TRIPLETS, "loss.temperature=-0.05"], "loss.temperature"),
    (["loss=spearman", "loss.temperature=-1"], "loss.temperature"),
    (["loss=cosent", "loss.scale=0"], "loss.scale"),
    (["loss=ibn", "loss.scale=-20"], "loss.scale"),
    (["loss=energy", "data.kind=triplets", "loss.margin=-0.2"], "loss.margin"),
    (["loss=decoupled", "data.kind=triplets", "loss.uniformity_weight=-1"], "loss.uniformity_weight"),
    (["loss=smooth_k2", "loss.k=-2"], "loss.k"),
    ([*MIX, "+loss.weights.a=-1"], "loss.weights"),
    ([*MIX, "+loss.weights.a=0"], "loss.weights"),
    (["regularizer=rank_reduction", "regularizer.coefficient=-1"], "regularizer.coefficient"),
    (["callbacks=rank_monitor", "callbacks.rank_monitor.every=0"], "callbacks.rank_monitor.every"),
    (["callbacks=rank_monitor", "callbacks.rank_monitor.fraction=0"], "callbacks.rank_monitor"),
    (["callbacks=ema", "callbacks.ema.decay=1.5"], "callbacks.ema"),
    # Types that would be taken for something else
    (["loss.official=no"], "loss.official"),
    (["loss.official=2"], "loss.official"),
    (["data.batch_size='16'"], "data.batch_size"),
    (["data.batch_size=true"], "data.batch_size"),
    ([*TRIPLETS, "loss.temperature='0.1'"], "loss.temperature"),
    # What has no effect in a combination
    (["data.views=3"], "views"),
    (["data.repetition=0.3"], "repetition"),
    (["path=mine.csv"], "path=mine.csv"),
    (["freeze=encoder"], "freeze=encoder"),
    (["optim.head_lr=1e-3"], "optim.head_lr"),
    (["freeze=encoder", "loss=angle"], "freeze=encoder"),
    # Targets that are something else
    (["data._target_=builtins.dict"], "data._target_"),
    (["loss._target_=builtins.dict"], "loss._target_"),
    (["loss._target_=builtins.print"], "loss"),
    (["data._target_=sts_lightning.nothing.At"], "data._target_"),
    (["~loss.official", "loss._target_=torch.nn.Identity"], "loss"),
    (["+callbacks.x._target_=torch.nn.GELU"], "callbacks.x._target_"),
    # Arguments of the Trainer
    (["+trainer.extra.profiler=nope"], "trainer.extra"),
    (["+trainer.extra.foo=1"], "trainer.extra.foo"),
    (["+trainer.extra.max_steps=1"], "trainer.extra.max_steps"),
    (["+trainer.extra.strategy=foo"], "trainer.extra.strategy"),
    (["+trainer.extra.callbacks=[]"], "trainer.extra.callbacks"),
    (["+trainer.extra.precision=64"], "trainer.extra.precision"),
    (["+trainer.extra.enable_checkpointing=false"], "trainer.extra.enable_checkpointing"),
    (["+trainer.extra.fast_dev_run=true"], "trainer.extra.fast_dev_run"),
    (["+trainer.extra.limit_val_batches=0"], "trainer.extra.limit_val_batches"),
    (["+trainer.extra.max_time=soon"], "trainer.extra"),
]


@pytest.fixture
def no_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever loads weights fails, so that a row that gets so far does."""

    def load(*_: Any, **__: Any) -> None:
        raise AssertionError("weights would be loaded")

    monkeypatch.setattr(train, "build_encoder", load)
    monkeypatch.setattr(evaluate, "build_encoder", load)


@pytest.mark.usefixtures("no_weights")
@pytest.mark.parametrize(
    ("overrides", "key"),
    SETTINGS,
    ids=lambda value: value if isinstance(value, str) else " ".join(value)[:60],
)
def test_settings_are_rejected_before_anything_is_loaded(
    overrides: list[str], key: str, config: Config, tmp_path: Path
) -> None:
    cfg = config(*SHORT_RUN, "data.batch_size=16", *overrides)
    with pytest.raises(UserError) as caught:
        train_in(tmp_path / "run", cfg)
    assert key in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()


@pytest.mark.usefixtures("no_weights")
@pytest.mark.parametrize(
    "overrides",
    [
        [],
        ["trainer.max_epochs=-1", "trainer.max_steps=5", "trainer.val_every=3"],
        ["trainer.gradient_clip_val=null", "trainer.limit_train_batches=null", "trainer.val_every=1.0"],
        ["seed=0"],
        ["seed=4294967295"],
        ["trainer.micro_batch_size=auto"],
        ["+trainer.extra.profiler=simple"],
        ["freeze=encoder", "loss=l1", "optim.head_lr=1e-3"],
        ["loss=infonce", "data.kind=sentences", "data.views=3", "data.repetition=0.3"],
        ["optim.warmup=20", "optim.betas=[0.0,0.5]"],
    ],
)
def test_settings_at_the_edge_of_what_is_allowed(
    overrides: list[str], config: Config, tmp_path: Path
) -> None:
    with pytest.raises(AssertionError, match="weights would be loaded"):
        train_in(tmp_path / "run", config(*SHORT_RUN, "data.batch_size=16", *overrides))


def test_a_model_without_layers(config: Config, tmp_path: Path) -> None:
    for model in ("tiny_bert", "tiny_mistral", "tiny_opt"):
        with pytest.raises(ConfigError, match=r"model\.layers must be at least 1, got 0"):
            train_in(tmp_path / "run", config(*SHORT_DATA, f"model={model}", "model.layers=0"))


@pytest.mark.usefixtures("no_weights")
@pytest.mark.parametrize(
    ("overrides", "key"),
    [
        (["tasks=[]"], "tasks=[]"),
        (["tasks=[STSB,STSB]"], "tasks: STSB"),
        (["suite=transfer", "tasks=[MR,MR]"], "tasks: MR"),
        (["suite=mteb", "tasks=[]"], "tasks=[]"),
        (["suite=mteb", "tasks=[STS12]", "subsets=[]"], "subsets=[]"),
        (["suite=mteb", "tasks=[STS12]", "languages=[eng,eng]"], "languages: eng"),
        (["languages=[eng]"], "languages"),
        (["tasks=[STS17]"], "STS17"),
        (["model.max_length=.nan"], "model.max_length"),
    ],
)
def test_evaluation_settings(overrides: list[str], key: str, config: Config, tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        evaluate_in(tmp_path / "run", config("model=tiny_bert", *overrides, of="eval"))
    assert key in str(caught.value)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("argument", "named"),
    [
        ("model=null", "minilm"),
        ("loss=null", "pearson"),
        ("loss=5", "infonce"),
        ("data=null", "pairs_file"),
        ("trainer=null", "ddp"),
        ("prompt=null", "eol"),
        ("logger=null", "tensorboard"),
        ("logger=true", "tensorboard"),
        ("experiment=null", "stage2"),
    ],
)
def test_a_group_that_is_not_a_name(
    argument: str,
    named: str,
    config: Config,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("sys.argv", ["train.py", "seed=2", "data=toy", argument])
    with pytest.raises(SystemExit) as left:
        app.run(lambda: config("seed=2", argument), str(CONF), "train")
    assert left.value.code == 1
    printed = capsys.readouterr().err
    assert f"error: {argument}: {argument.partition('=')[0]} is chosen by name among" in printed
    assert named in printed


def test_other_value_errors_are_not_swallowed() -> None:
    def fails() -> None:
        raise ValueError("something else")

    with pytest.raises(ValueError, match="something else"):
        app.run(fails, str(CONF), "train")


@pytest.mark.parametrize(
    ("build", "name"),
    [
        (lambda: InfoNCELoss(temperature=float("nan")), "temperature"),
        (lambda: InfoNCELoss(hard_negative_weight=float("nan")), "hard_negative_weight"),
        (lambda: CoSENTLoss(scale=float("inf")), "scale"),
        (lambda: EnergyLoss(margin=float("nan")), "margin"),
        (lambda: RankReduction(coefficient=float("nan")), "coefficient"),
    ],
)
def test_losses_without_a_configuration(build: Callable[[], Any], name: str) -> None:
    with pytest.raises((ConfigError, ValueError), match=name):
        build()


# Files of scored pairs

HEAD = "sentence1,sentence2,score\n"
ROW = {"sentence1": "a", "sentence2": "b", "score": 1}


def line(**fields: Any) -> str:
    return json.dumps(ROW | fields) + "\n"


GOOD = {
    "csv": HEAD + "".join(f"first {row},second {row},{row % 5}\n" for row in range(20)),
    "tsv": (HEAD + "".join(f"first {row},second {row},{row % 5}\n" for row in range(20))).replace(",", "\t"),
    "jsonl": "".join(line(sentence1=f"first {row}", score=row % 5) for row in range(20)),
}

FILES: list[tuple[str, str, int, str]] = [
    ("csv", "c,d,\u0661\n", 22, "is not a number"),
    ("csv", "c,d,1_0\n", 22, "1_0"),
    ("csv", "c,d,\uff11\n", 22, "is not a number"),
    ("csv", "c,d,nan\n", 22, "nan"),
    ("csv", "c,d,-inf\n", 22, "-inf"),
    ("csv", "c,d,1e999\n", 22, "1e999"),
    ("csv", "c,d,0x1\n", 22, "0x1"),
    ("csv", "c,d,\n", 22, "is not a number"),
    ("csv", f"c,d,{'1' * 5000}\n", 22, "1111..."),
    ("csv", "c,d\n", 22, "columns"),
    ("csv", "\nc,d,1\n", 22, "columns"),
    ("csv", '"c,d,1\n', 22, "CSV"),
    ("tsv", "c\td\t\u0661\n", 22, "is not a number"),
    ("tsv", "c\td\n", 22, "columns"),
    ("tsv", "\t\t\n", 22, "is not a number"),
    ("tsv", "\nc\td\t1\n", 22, "columns"),
    ("jsonl", line(score="\u0661"), 21, "is not a number"),
    ("jsonl", line(score=True), 21, "'score'"),
    ("jsonl", line(score=[1]), 21, "'score'"),
    ("jsonl", line(score=None), 21, "is not a number"),
    ("jsonl", line(sentence1={"text": "a"}), 21, "'sentence1'"),
    ("jsonl", line(sentence1=["a"]), 21, "'sentence1'"),
    ("jsonl", line(sentence1=7), 21, "'sentence1'"),
    ("jsonl", line(sentence2=False), 21, "'sentence2'"),
    ("jsonl", line(sentence2=None), 21, "empty"),
    ("jsonl", line(sentence1="a \ud800 b"), 21, r"\ud800"),
    ("jsonl", '{"sentence1": "a", "sentence2": "b", "score": 1, "score": 2}\n', 21, "'score' occurs twice"),
    ("jsonl", line().replace("1}", "1" * 5000 + "}"), 21, "JSON"),
    ("jsonl", "[" * 100_000 + "\n", 21, "nested"),
    ("jsonl", "\n" + line(), 21, "JSON"),
    ("jsonl", line(score=float("nan")), 21, "is not a number"),
    ("jsonl", '"text"\n', 21, "object"),
]


def read(path: Path, content: str) -> PairsFileData:
    path.write_text(content, encoding="utf-8")
    data = PairsFileData(str(path), batch_size=4, seed=0, dev_fraction=0.3)
    data.setup()
    return data


@pytest.mark.parametrize(("kind", "row", "number", "reason"), FILES)
def test_rows_are_rejected_by_file_and_line(
    kind: str, row: str, number: int, reason: str, tmp_path: Path
) -> None:
    with pytest.raises(DataError) as caught:
        read(tmp_path / f"mine.{kind}", GOOD[kind] + row)
    assert str(caught.value).startswith(f"{tmp_path}/mine.{kind}, line {number}: ")
    assert reason in str(caught.value)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    ("kind", "row", "pairs"),
    [
        ("csv", "\n", 20),
        ("csv", "\n  \r\n\n", 20),
        ("tsv", "\n\n", 20),
        ("jsonl", "\n\n", 20),
        ("csv", f"{'long ' * 40_000},d,1\n", 21),
        ("csv", f'"{"long " * 40_000}",d, 1.5 \n', 21),
        ("tsv", f"{'long ' * 40_000}\td\t+1.\n", 21),
        ("jsonl", line(sentence1="c", score=" 2.5e-1"), 21),
        ("jsonl", line(sentence1="\U0001f600", extra={"any": ["thing"]}), 21),
    ],
)
def test_rows_that_are_harmless(kind: str, row: str, pairs: int, tmp_path: Path) -> None:
    data = read(tmp_path / f"mine.{kind}", GOOD[kind] + row)
    assert len(data.train) + len(data.dev) == pairs


@pytest.mark.parametrize("kind", ["csv", "tsv"])
def test_a_column_that_occurs_twice(kind: str, tmp_path: Path) -> None:
    content = "sentence1,sentence2,score,score\n" + "a,b,1,2\n" * 20
    with pytest.raises(DataError, match=r"line 1: the header has 'score' more than once"):
        read(tmp_path / f"mine.{kind}", content if kind == "csv" else content.replace(",", "\t"))
    unused = content.replace("score,score", "note,note").replace("sentence2,note", "sentence2,score")
    with pytest.raises(DataError, match="scores equal"):  # a surplus column may occur twice
        read(tmp_path / "mine.csv", unused.replace("score,note", "score,sentence"))


@pytest.mark.parametrize(
    ("options", "key"),
    [
        (["data.score_range=[0]"], "data.score_range"),
        (["data.score_range=[0,1,2]"], "data.score_range"),
        (["data.score_range=[0,inf]"], "data.score_range"),
        (["data.score_range=[nan,5]"], "data.score_range"),
        (["data.score_range=[5,0]"], "data.score_range"),
        (["data.score_range=[1,1]"], "data.score_range"),
        (["data.score_range=[low,high]"], "data.score_range"),
        (["data.dev_fraction=nan"], "data.dev_fraction"),
        (["data.dev_fraction=1"], "data.dev_fraction"),
        (["data.sentence1=sentence2"], "data.sentence1"),
        (["data.score=sentence1"], "score"),
    ],
)
@pytest.mark.usefixtures("no_weights")
def test_settings_of_a_file(options: list[str], key: str, config: Config, tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text(GOOD["csv"])
    with pytest.raises(ConfigError) as caught:
        train_in(
            tmp_path / "run",
            config("model=tiny_bert", "data=pairs_file", f"path={tmp_path}/mine.csv", *options),
        )
    assert key in str(caught.value)


@pytest.mark.usefixtures("no_weights")
@pytest.mark.parametrize(
    ("overrides", "key"),
    [
        (["data=sts", "loss=infonce", "data.positives_from=9"], "data.positives_from"),
        (["data=sts", "loss=infonce", "data.positives_from=-1"], "data.positives_from"),
        (["data=nli_pairs", "loss=l1", "data.columns=[a,b]"], "data.columns"),
        (["data=nli_pairs", "loss=l1", "data.columns=[a,b,b]"], "data.columns"),
        (["data=sentences", "loss=infonce", "data.official_repetition=true"], "data.official_repetition"),
        (["data=sentences", "loss=infonce", "data.views=4"], "data.views"),
    ],
)
def test_settings_of_other_data(overrides: list[str], key: str, config: Config, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        train_in(tmp_path / "run", config("model=tiny_bert", *overrides))
    assert key in str(caught.value)


# SentEval's files


def write_sts(root: Path, rows: int) -> Path:
    folder = root / "senteval"
    for name, head in (
        ("STS/STSBenchmark/sts-dev.csv", ""),
        ("SICK/SICK_trial.txt", "pair_ID\ta\tb\tc\td\n"),
    ):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        text = [
            f"g\tf\ty\t{row}\t{row % 6}\tone {row}\tother {row}"
            if "STS" in name
            else f"{row}\tone {row}\tother {row}\t{1 + row % 5}\tNEUTRAL"
            for row in range(rows)
        ]
        path.write_text(head + "\n".join(text) + "\n\n")
    return folder


def test_files_of_known_size(tmp_path: Path) -> None:
    folder = write_sts(tmp_path, 60)
    for read_split, name, count in (
        (lambda: load_stsb(tmp_path, "dev"), "sts-dev.csv", "1,500"),
        (lambda: load_sickr(tmp_path, "trial"), "SICK_trial.txt", "500"),
    ):
        with pytest.raises(DataError) as caught:
            read_split()
        for part in (name, "60", count, "counts.json"):
            assert part in str(caught.value)
    counts = folder / "counts.json"
    counts.write_text('{"STS/STSBenchmark/sts-dev.csv": 60}')
    assert len(load_stsb(tmp_path, "dev")) == 60
    assert len(load_sickr(tmp_path, "trial")) == 60  # not listed, so not checked
    counts.write_text('{"STS/STSBenchmark/sts-dev.csv": 61}')
    with pytest.raises(DataError, match=r"sts-dev\.csv: 60 rows .* 61"):
        load_stsb(tmp_path, "dev")
    for broken in ("[]", "{", '{"STS/STSBenchmark/sts-dev.csv": "60"}'):
        counts.write_text(broken)
        with pytest.raises(DataError, match=r"counts\.json"):
            load_stsb(tmp_path, "dev")
    write_sts(tmp_path, 500)
    counts.unlink()
    assert len(load_sickr(tmp_path, "trial")) == 500


# Commands


def write_predictions(run: Path, cosines: Any, gold: Any) -> Path:
    run.mkdir()
    np.savez(run / PREDICTIONS, **{"STSB/cosine": np.asarray(cosines), "STSB/gold": np.asarray(gold)})
    return run


@pytest.mark.parametrize(
    ("cosines", "gold", "reason"),
    [
        ([0.1, float("nan"), 0.3], [1.0, 2.0, 3.0], "cosine"),
        ([0.1, 0.2, float("inf")], [1.0, 2.0, 3.0], "cosine"),
        ([0.1, 0.2, 0.3], [1.0, float("nan"), 3.0], "gold score"),
        ([0.1, 0.2], [1.0, 2.0, 3.0], "shape"),
        ([[0.1, 0.2, 0.3]], [[1.0, 2.0, 3.0]], "shape"),
        ([], [], "shape"),
        (["a", "b", "c"], [1.0, 2.0, 3.0], "cosine"),
    ],
)
def test_predictions_that_are_no_numbers(cosines: Any, gold: Any, reason: str, tmp_path: Path) -> None:
    run = write_predictions(tmp_path / "run", cosines, gold)
    with pytest.raises(CheckpointError) as caught:
        load_predictions(RunFolder(run))
    assert f"{run / PREDICTIONS}: STSB has" in str(caught.value)
    assert reason in str(caught.value)


def test_predictions_without_arrays(tmp_path: Path) -> None:
    np.savez(tmp_path / PREDICTIONS)
    with pytest.raises(CheckpointError, match="holds no predictions"):
        load_predictions(RunFolder(tmp_path))
    with (tmp_path / PREDICTIONS).open("wb") as file:
        np.save(file, np.zeros(3))
    with pytest.raises(CheckpointError, match="is broken"):
        load_predictions(RunFolder(tmp_path))


@pytest.mark.parametrize("vectors", [np.full((2, 3), np.nan), np.array([[1.0, np.inf], [1.0, 2.0]])])
def test_vectors_that_are_not_finite(vectors: np.ndarray) -> None:
    class Broken:
        def encode(self, sentences: Any, /) -> np.ndarray:
            return vectors[: len(sentences)]

    table: Any = {"sentence1": ["a"], "sentence2": ["b"]}
    for encoder in (Broken(), UnitVectors(Broken())):
        with pytest.raises(TrainingError, match=r"of 2 sentences are NaN or infinite"):
            encode_pairs(encoder, [table])


def leaves(*arguments: str, capsys: pytest.CaptureFixture[str]) -> str:
    """What a command says as it leaves; one line, besides argparse's usage."""
    with pytest.raises(SystemExit) as left:
        main(list(arguments))
    message = str(left.value) if isinstance(left.value.code, str) else capsys.readouterr().err
    return message.splitlines()[-1]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["compare", "RUN", "--to", "RUN", "--resamples", "0"], "--resamples"),
        (["compare", "RUN", "--to", "RUN", "--resamples", "-5"], "--resamples"),
        (["compare", "RUN", "--to", "RUN", "--resamples", "1.5"], "--resamples"),
        (["compare", "NAN", "--to", "RUN"], "nan/predictions.npz"),
        (["ceiling", "FILE", "--levels", "1"], "--levels"),
        (["ceiling", "FILE", "--levels", "0"], "--levels"),
        (["ceiling", "FILE", "--levels", "99"], "mine.csv"),
        (["ceiling", "FILE", "--plot", "MISSING/x.png"], "--plot"),
        (["leaks", "FILE", "--against", "FILE", "--write", "MISSING/w.csv"], "--write"),
        (["leaks", "FILE", "--against", "FILE", "--list", "FOLDER"], "--list"),
        (["leaks", "FILE", "--against", "FILE", "--list", "MISSING/l.csv"], "--list"),
        (["leaks", "FILE", "--near", "nan"], "--near"),
        (["leaks", "FILE", "--near", "2"], "--near"),
        (["leaks", "FILE", "--columns", "sentence1", "sentence1"], "--columns"),
        (["export", "FOLDER", "FILE/x"], "config.yaml"),
    ],
)
def test_commands(
    arguments: list[str], named: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.csv").write_text(GOOD["csv"])
    (tmp_path / "folder").mkdir()
    write_predictions(tmp_path / "run", [0.1, 0.2, 0.3], [1.0, 3.0, 2.0])
    write_predictions(tmp_path / "nan", [0.1, float("nan"), 0.3], [1.0, 3.0, 2.0])
    places = {"RUN": "run", "NAN": "nan", "FILE": "mine.csv", "MISSING": "missing", "FOLDER": "folder"}
    for word, name in places.items():
        arguments = [argument.replace(word, str(tmp_path / name)) for argument in arguments]
    before = sorted(tmp_path.rglob("*"))
    assert named in leaves(*arguments, capsys=capsys)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("place", ["FILE/x", "FILE/x/y", "/proc/x"])
def test_an_export_to_a_place_that_cannot_be_made(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(RunFolder, "load_config", lambda *_: None)
    place = place.replace("FILE", str(tmp_path / "file"))
    assert f"{place} cannot be made" in leaves("export", "run", place, capsys=capsys)


def test_draws_and_ceilings_in_process(tmp_path: Path) -> None:
    runs_ = [{"STSB": (np.arange(3.0), np.arange(3.0))}]
    for resamples in (0, -5):
        with pytest.raises(ValueError, match="resamples"):
            paired_difference(runs_, runs_, resamples)
    (tmp_path / "mine.csv").write_text("score\n1\nnan\n")
    with pytest.raises(DataError, match=r"mine\.csv, line 3: the score 'nan'"):
        read_golds(tmp_path / "mine.csv", "score", "")
    for gold in ([1.0, 1.0, 1.0], [1.0, float("nan"), 3.0]):
        with pytest.raises(ConfigError, match=r"^mine: .*gold score"):
            report_ceilings({"mine": np.array(gold)}, [2])


def test_a_file_that_grows_too_large_or_has_too_long_a_name(capsys: pytest.CaptureFixture[str]) -> None:
    for number in (27, 36):  # EFBIG, ENAMETOOLONG

        def fails(number: int = number) -> None:
            raise OSError(number, "too much", "the/file")

        with pytest.raises(SystemExit) as left:
            app.run(fails, str(CONF), "train")
        assert left.value.code == 1
        assert "the/file" in capsys.readouterr().err
