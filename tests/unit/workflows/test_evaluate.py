"""Evaluation of a model or a run on a suite."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from omegaconf import DictConfig
from sentence_transformers.sentence_transformer.evaluation import EmbeddingSimilarityEvaluator
from tokenizers import Tokenizer, pre_tokenizers
from tokenizers.models import BPE
from transformers import PreTrainedTokenizerFast

from sts_lightning.core.errors import ConfigError, UserError
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.runs.folder import RunFolder
from sts_lightning.runs.metrics import RunMetrics
from sts_lightning.workflows.evaluate import check_overrides, evaluate_in
from tests.support.st_folders import st_folder

Config = Callable[..., DictConfig]


@pytest.mark.usefixtures("no_weights")
@pytest.mark.parametrize(
    ("overrides", "key"),
    [
        (["suite=mteb", "tasks=[]"], "suite=mteb needs tasks"),
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
    ("override", "key"),
    [
        ("model=minilm", "model"),
        ("model.max_length=9", "model.max_length"),
        ("+model.dropout=0", "model.dropout"),
        ("prompt=eol", "prompt"),
        ("~prompt.template", "prompt.template"),
    ],
)
def test_a_run_has_its_own_model(override: str, key: str, config: Config) -> None:
    cfg = config("ckpt=runs/a", of="eval")
    check_overrides(cfg, ["ckpt=runs/a", "max_length=9", "precision=bf16-true", "test=model.csv"])
    with pytest.raises(ConfigError, match="runs/a has its own model and prompt") as caught:
        check_overrides(cfg, ["ckpt=runs/a", override])
    assert caught.value.key == key
    check_overrides(config(of="eval"), [override])


def test_a_second_evaluation_encodes_nothing(
    config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = ["sentence1,sentence2,score", "aa bb,aa bc,5", "aa,cc dd,1", "bb,cd,0", "ab ab,ab,4"]
    (tmp_path / "pairs.csv").write_text("\n".join(rows))
    asked: list[str] = []
    encode = SentenceEncoder.encode

    def noted(self: SentenceEncoder, sentences: Sequence[str], *rest: Any, **options: Any) -> np.ndarray:
        asked.extend(sentences)
        return encode(self, sentences, *rest, **options)

    def scores(name: str, *overrides: str) -> RunMetrics:
        test = [f"test={tmp_path / 'pairs.csv'}", f"cache_dir={tmp_path / 'vectors'}", "accelerator=cpu"]
        evaluate_in(tmp_path / name, config("model=tiny_bert", *test, *overrides, of="eval"))
        return RunFolder(tmp_path / name).metrics()

    monkeypatch.setattr(SentenceEncoder, "encode", noted)
    first = scores("first")
    assert {"aa bb", "cd"} <= set(asked)
    asked.clear()
    second = scores("second")
    assert asked == []
    assert second.scores == first.scores
    assert (first.details["vectors_from_cache"], second.details["vectors_from_cache"]) == (0, 8)
    asked.clear()
    scores("other", "model.pooling=cls")
    assert "aa bb" in asked


def test_a_file_of_rows_is_ranked(config: Config, tmp_path: Path) -> None:
    answers = ["aa bb", "cc dd", "ab ba", "dc cd"]
    rows = [f"{answer},{answer} b" for answer in answers]
    (tmp_path / "qa.csv").write_text("\n".join(["question,answer", *rows]))
    test = [f"test={tmp_path / 'qa.csv'}", "accelerator=cpu"]
    evaluate_in(tmp_path / "run", config("model=tiny_bert", *test, of="eval"))
    run = RunFolder(tmp_path / "run")
    with np.load(run.predictions_file) as stored:
        ranks = stored["qa/mrr@10"]
    assert ranks.shape == (4,)
    assert run.metrics().scores["qa"] == pytest.approx(100 * ranks.mean())


def test_text_with_layout_is_scored_as_sentence_transformers_does(config: Config, tmp_path: Path) -> None:
    """A byte-level tokenizer tells line breaks, indentation and double blanks from single ones."""
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer = Tokenizer(
        BPE({letter: index for index, letter in enumerate(["<pad>", *sorted(alphabet)])}, [])
    )
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>")
    settings = {"vocab_size": len(fast)}
    name, reference = st_folder(tmp_path, "qwen3", "lasttoken", tokenizer=fast, settings=settings)
    draw = np.random.default_rng(0)
    pieces = ["if ok:", "\n", "\n    ", "\n\t", "  ", " ", "return x", "x = 1", "y  =  2", "# done"]
    texts = ["".join(draw.choice(pieces, 6)) + "." for _ in range(60)]
    pairs = list(zip(texts[::2], texts[1::2], draw.integers(0, 6, 30).tolist(), strict=True))
    with (tmp_path / "code.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("sentence1", "sentence2", "score"), *pairs])
    evaluate_in(
        tmp_path / "run",
        config(
            "model=encoder", f"model.name={name}", f"test={tmp_path}/code.csv", "accelerator=cpu", of="eval"
        ),
    )
    found = RunFolder(tmp_path / "run").metrics().scores

    def theirs(change: Callable[[str], str]) -> float:
        first, second = ([change(pair[side]) for pair in pairs] for side in (0, 1))
        evaluator = EmbeddingSimilarityEvaluator(first, second, [float(gold) for *_, gold in pairs])
        return 100 * evaluator(reference)["spearman_cosine"]

    assert found["code"] == pytest.approx(theirs(str), abs=0.01)
    assert abs(theirs(str) - theirs(lambda text: " ".join(text.split()))) > 1
