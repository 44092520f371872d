"""Choices of groups on the command line: each mistake names its group, with the nearest choice."""

from __future__ import annotations

import pytest

from sts_lightning.config.compose import check_choices
from sts_lightning.core.errors import ConfigError


@pytest.mark.parametrize(
    ("argument", "named"),
    [
        ("model=null", "minilm"),
        ("model=5", "minilm"),
        ("model=nan", "minilm"),
        ("model=[]", "minilm"),
        ("model=[minilm,tiny_bert]", "minilm"),
        ("model=''", "There are"),
        ("model=minilmm", "Did you mean minilm?"),
        ("model=minilm,tiny_bertt", "Did you mean tiny_bert"),
        ("loss=${nope}", "There are"),
        ("trainer=[]", "ddp"),
        ("recipe=qlorra", "Did you mean qlora or lora?"),
        ("callbacks=[ema,early_stoping]", "Did you mean early_stopping?"),
        ("callbacks=[1]", "rank_monitor"),
        ("logger=null", "tensorboard"),
        ("experiment=pccc", "Did you mean pcc"),
        ("model=org/name", "Any model is model=encoder model.name=org/name, or model=decoder for a decoder."),
        ("model=all-MiniLM", "tiny_opt. Any other is model=encoder model.name=ID, or model=decoder for"),
        ("data=pairs.csv", "Your file is path=pairs.csv; its columns decide the data."),
        ("data=mine.parquet", "Your file is path=mine.parquet; its columns decide the data."),
        ("data=mine.csv.gz", "Your file is path=mine.csv.gz; its columns decide the data."),
        ("data=mine.arrow", "Your scored pairs are data=pairs_hub path=mine.arrow."),
        ("data=org/name", "Your scored pairs are data=pairs_hub path=org/name."),
        ("prompt='query: {sentence}'", """is 'prompt.template="query: {sentence}"'."""),
    ],
)
def test_a_mistake_names_its_group(argument: str, named: str) -> None:
    with pytest.raises(ConfigError, match=argument.partition("=")[0]) as caught:
        check_choices(["seed=2", argument])
    assert "\n" not in str(caught.value)
    assert caught.value.key == argument.partition("=")[0]
    assert named in str(caught.value)


@pytest.mark.parametrize(
    "arguments",
    [
        ["-m", "model=minilm,tiny_bert", "seed=1"],
        ["callbacks=[ema,rank_monitor]", "logger=[]"],
        ["model={pooling: cls}", "model.pooling=mean", "~callbacks", "+recipe=qlora"],
        ["hydra/launcher=nonsense"],
        ["--config-path=mine", "model=my_own"],
        ["--cfg", "job", "model=minilm", "-m", "seed=1,2"],
        ["hydra.mode=MULTIRUN", "seed=1,2"],
    ],
)
def test_everything_else_is_left_to_hydra(arguments: list[str]) -> None:
    check_choices(arguments)


def test_mistakes_are_told_together() -> None:
    with pytest.raises(ConfigError) as caught:
        check_choices(["model=minilmm", "callbacks=[emaa,rank_monitor]", "pearson", "path=[a"], "eval")
    assert [line.partition(" ")[0] for line in str(caught.value).split("\n  ")] == [
        "4",
        "pearson",
        "path=[a:",
        "model=minilmm:",
        "callbacks=[emaa,rank_monitor]:",
    ]
    assert "ckpt=RUN" in str(caught.value)
