"""Settings that are rejected by one message that names the key.

They go through `train_in` with no weights to load, which also shows that they are found before any is loaded
and before anything is written.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from omegaconf import DictConfig

from sts_lightning.core.errors import ConfigError, DataError, UserError
from sts_lightning.workflows.start import train_in
from tests.conftest import SHORT_RUN

Config = Callable[..., DictConfig]


TRIPLETS = ["loss=infonce", "data.kind=triplets"]
MIX = ["loss=mix", "+loss.terms.a._target_=sts_lightning.losses.pearson.PearsonLoss"]

SETTINGS: list[tuple[list[str], str]] = [
    # One of each kind of number; test_bad_input has the boundary of each key
    (["optim.lr='nan'"], "optim.lr"),
    (["optim.betas=[nan,0.9]"], "optim.betas"),
    (["trainer.val_every=inf"], "trainer.val_every"),
    (["seed=99999999999999999999"], "seed"),
    ([*TRIPLETS, "loss.temperature=0"], "loss.temperature"),
    ([*MIX, "+loss.weights.a=-1"], "loss.weights"),
    ([*MIX, "+loss.weights.a=0"], "loss.weights"),
    (["regularizer=rank_reduction", "regularizer.coefficient=-1"], "regularizer.coefficient"),
    (["callbacks=rank_monitor", "callbacks.rank_monitor.fraction=0"], "callbacks.rank_monitor"),
    (["callbacks=ema", "callbacks.ema.decay=1.5"], "callbacks.ema"),
    (["callbacks=early_stopping", "+callbacks.early_stopping.min_delta=inf"], "early_stopping.min_delta"),
    # Types that would be taken for something else
    (["loss=infonce", "loss.positive_negatives=no"], "loss.positive_negatives"),
    (["loss=infonce", "loss.positive_negatives=2"], "loss.positive_negatives"),
    (["data.batch_size='16'"], "data.batch_size"),
    (["data.batch_size=true"], "data.batch_size"),
    ([*TRIPLETS, "loss.temperature='0.1'"], "loss.temperature"),
    # What has no effect in a combination
    (["path=mine.csv"], "path=mine.csv"),
    (["optim.freeze=encoder"], "optim.freeze=encoder"),
    (["optim.freeze=encoder", "loss=angle"], "optim.freeze=encoder"),
    # Targets that are something else
    (["data._target_=builtins.dict"], "data._target_"),
    (["loss._target_=builtins.dict"], "loss._target_"),
    (["loss._target_=builtins.print"], "loss"),
    (["data._target_=sts_lightning.nothing.At"], "data._target_"),
    (["loss._target_=torch.nn.Identity"], "loss"),
    (["+callbacks.x._target_=torch.nn.GELU"], "callbacks.x._target_"),
    # Arguments of the Trainer
    (["+trainer.extra.foo=1"], "trainer.extra.foo"),
    (["+trainer.extra.max_steps=1"], "trainer.extra.max_steps"),
    (["+trainer.extra.limit_val_batches=0"], "trainer.extra.limit_val_batches"),
]


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
        ["trainer.max_epochs=-1", "trainer.max_steps=5", "trainer.val_every=1"],
        ["trainer.gradient_clip_val=null", "trainer.limit_train_batches=null", "trainer.val_every=null"],
        ["seed=0"],
        ["seed=4294967295"],
        ["trainer.micro_batch_size=auto"],
        ["+trainer.extra.profiler=simple"],
        ["optim.freeze=encoder", "loss=l1", "optim.head_lr=1e-3"],
        ["loss=infonce", "data.kind=sentences", "data.views=3", "data.repetition=0.3"],
        ["optim.warmup=20", "optim.betas=[0.0,0.5]"],
    ],
)
def test_settings_at_the_edge_of_what_is_allowed(
    overrides: list[str], config: Config, tmp_path: Path
) -> None:
    with pytest.raises(AssertionError, match="weights would be loaded"):
        train_in(tmp_path / "run", config(*SHORT_RUN, "data.batch_size=16", *overrides))


HEAD = "sentence1,sentence2,score\n"


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
        (["data.columns=[a,b,b]"], "data.columns"),
        (["data.columns=[a,b]"], "data.columns"),
    ],
)
@pytest.mark.usefixtures("no_weights")
def test_settings_of_a_file(options: list[str], key: str, config: Config, tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text("sentence1,sentence2,score\n" + "a,b,1\nc,d,2\n" * 10)
    with pytest.raises(ConfigError) as caught:
        train_in(
            tmp_path / "run",
            config("model=tiny_bert", "data=pairs_file", f"path={tmp_path}/mine.csv", *options),
        )
    assert key in str(caught.value)


@pytest.mark.usefixtures("no_weights")
def test_a_hint_on_other_scores_works_when_typed(config: Config, tmp_path: Path) -> None:
    for name, pair in (("mine", ("0", "100")), ("dev", ("0", "1"))):
        lines = [f"{name}{row},b,{pair[row % 2]}\n" for row in range(20)]
        (tmp_path / f"{name}.csv").write_text("sentence1,sentence2,rel-score\n" + "".join(lines))
    typed = ["data=pairs_file", f"path={tmp_path}/mine.csv", "data.columns=[sentence1,sentence2,rel-score]"]
    typed += [f"data.dev_path={tmp_path}/dev.csv"]
    with pytest.raises(DataError) as caught:
        train_in(tmp_path / "run", config("model=tiny_bert", "loss=cosine_mse", *typed))
    hint = shlex.split(str(caught.value).partition(": ")[2].removesuffix("."))
    proposed = [word for word in hint if re.match(r"(loss|path|data(\.\w+)?)=", word)]
    with pytest.raises(AssertionError, match="weights would be loaded"):
        train_in(tmp_path / "run", config("model=tiny_bert", "loss=cosine_mse", *typed, *proposed))


@pytest.mark.usefixtures("no_weights")
def test_equal_scores_are_for_losses_that_do_not_compare_them(config: Config, tmp_path: Path) -> None:
    for name, scores in (("mine", "11"), ("dev", "01")):
        lines = [f"{name}{row},b,{scores[row % 2]}\n" for row in range(20)]
        (tmp_path / f"{name}.csv").write_text("sentence1,sentence2,score\n" + "".join(lines))
    own = [
        "model=tiny_bert",
        "data=pairs_file",
        f"path={tmp_path}/mine.csv",
        f"data.dev_path={tmp_path}/dev.csv",
    ]
    with pytest.raises(
        ConfigError, match=r"PearsonLoss compares scores, but all 20 .* have the score 1"
    ) as caught:
        train_in(tmp_path / "run", config(*own, "loss=pearson"))
    assert str(caught.value).endswith("loss=cosine_mse does not compare them.")
    with pytest.raises(AssertionError, match="weights would be loaded"):
        train_in(tmp_path / "run", config(*own, "loss=cosine_mse"))


@pytest.mark.usefixtures("no_weights")
@pytest.mark.parametrize(
    ("overrides", "key"),
    [
        (["data=sts", "loss=infonce", "data.positives_from=9"], "data.positives_from"),
        (["data=sts", "loss=infonce", "data.positives_from=-1"], "data.positives_from"),
        (["data=nli_pairs", "loss=l1", "data.columns=[a,b]"], "data.columns"),
        (["data=nli_pairs", "loss=l1", "data.columns=[a,b,b]"], "data.columns"),
        (["data=sentences", "loss=infonce", "data.views=4"], "data.views"),
    ],
)
def test_settings_of_other_data(overrides: list[str], key: str, config: Config, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        train_in(tmp_path / "run", config("model=tiny_bert", *overrides))
    assert key in str(caught.value)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("prompt.template=Nothing.", r"^prompt\.template must contain \{sentence\} exactly once"),
        ("trainer.max_epochs=-1", r"trainer\.max_steps: the run would have no end"),
        ("+trainer.extra.profiler=nope", r"^trainer\.extra: .*profiler"),
    ],
)
def test_what_its_own_class_rejects_leaves_no_folder(
    override: str, message: str, config: Config, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=message):
        train_in(tmp_path / "run", config(*SHORT_RUN, override))
    assert not (tmp_path / "run" / "config.yaml").exists()


@pytest.mark.usefixtures("no_weights")
def test_templates_are_not_repeated(config: Config, tmp_path: Path) -> None:
    repeated = ["loss=infonce", "data.kind=sentences", "data.repetition=0.3"]
    with pytest.raises(ConfigError, match="use prompt=none"):
        train_in(tmp_path / "run", config(*SHORT_RUN, *repeated, "prompt=promptbert"))
    assert not (tmp_path / "run").exists()
