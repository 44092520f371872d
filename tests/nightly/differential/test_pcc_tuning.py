"""Both stages of Pcc-tuning, and its evaluation, against its code."""

from __future__ import annotations

import copy
import io
import logging
import types
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import pearsonr, spearmanr
from torch import Tensor

from sts_lightning.data.readers.sts_sets import load_sts_tasks
from sts_lightning.evaluation.sts import evaluate_sts
from sts_lightning.losses.contrastive import InfoNCELoss
from sts_lightning.losses.pearson import PearsonLoss
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.papers.losses.paper_code import PaperCodePearsonLoss
from sts_lightning.testing.tiny_decoders import tiny_mistral, tiny_opt
from sts_lightning.training.optim import make_optimizer
from tests.nightly.differential.compare import (
    LEARNING_RATE,
    SENTENCES,
    close,
    five_updates,
    left_padded,
    spread,
    views,
)
from tests.nightly.differential.papers_code import definitions

REPOSITORY = "Pcc-tuning"
TEMPLATES = {
    "eol": (
        'This sentence : "{sentence}" means in one word:"',
        'This_sentence_:_"*sent_0*"_means_in_one_word:"',
    ),
    "sum": (
        'This sentence : "{sentence}" can be summarized as',
        'This_sentence_:_"*sent_0*"_can_be_summarized_as',
    ),
}


class Rows:
    """The part of `datasets` that their functions use, without processes."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self.rows = rows

    def shuffle(self) -> Rows:
        return self

    def map(self, function: Any, num_proc: int) -> list[dict[str, Any]]:
        return [function(dict(row)) for row in self.rows]


def encoder_of(build: Any, prompt: str, length: int) -> SentenceEncoder:
    settings = {} if build is tiny_mistral else {"dropout": 0.0}
    encoder: SentenceEncoder = build(
        template=TEMPLATES[prompt][0], pooling="last_token", max_length=length, **settings
    )
    return spread(encoder)


def their_rows(
    file: str, encoder: SentenceEncoder, rows: list[dict[str, Any]], prompt: str
) -> list[dict[str, Any]]:
    """Their token ids, under their names."""
    tokenizer = encoder.tokenizer.tokenizer
    scope = definitions(
        REPOSITORY, f"code/{file}", "generate_sentemb_prompt", "get_train_data", NIL_DATASET=True
    )
    found: list[dict[str, Any]] = scope["get_train_data"](
        {"train": Rows(rows)}, tokenizer, TEMPLATES[prompt][1], encoder.tokenizer.lengths.train
    )
    return found


def optimizers(
    encoder: SentenceEncoder, theirs: torch.nn.Module
) -> tuple[torch.optim.Optimizer, torch.optim.Optimizer]:
    settings: dict[str, Any] = {"betas": (0.9, 0.999), "eps": 1e-8}
    return (
        make_optimizer(encoder, LEARNING_RATE, 0.0, settings["betas"], settings["eps"], fused=False),
        torch.optim.AdamW(theirs.parameters(), lr=LEARNING_RATE, weight_decay=0.0, **settings),
    )


def without_prefix(name: str) -> str:
    return name.removeprefix("backbone.")


@pytest.mark.parametrize("build", [tiny_mistral, tiny_opt])
def test_stage_1(build: Any) -> None:
    encoder = encoder_of(build, "eol", 32)
    columns = [SENTENCES[:8], SENTENCES[2:10], SENTENCES[4:12]]
    rows = [
        {"sent0": first, "sent1": second, "hard_neg": third}
        for first, second, third in zip(*columns, strict=True)
    ]
    batch, ids = views(encoder, columns)
    theirs = their_rows("train.py", encoder, rows, "eol")
    names = ("input_ids", "labels", "attention_mask")
    assert ids == [row[name] for name in names for row in theirs]

    scope = definitions(REPOSITORY, "code/train.py", "Similarity", "SentembTrainer", Trainer=object)
    trainer = scope["SentembTrainer"]()
    trainer.is_nli, trainer.use_neg_sentence = True, True
    model = copy.deepcopy(encoder.backbone)

    def their_loss(step: int, vectors: bool = False) -> Any:
        inputs = {name: left_padded([row[name] for row in theirs]) for name in names}
        return trainer.compute_loss(model, inputs, return_outputs=vectors)

    loss = InfoNCELoss()
    close(encoder(batch).view(3, 8, -1), their_loss(0, vectors=True)[1].transpose(0, 1), 1e-5)
    mine, other = optimizers(encoder, model)
    five_updates(
        encoder,
        lambda step: loss(encoder(batch).view(3, 8, -1)),
        mine,
        model,
        their_loss,
        other,
        without_prefix,
    )


@pytest.mark.parametrize("kind", [PaperCodePearsonLoss, PearsonLoss])
def test_stage_2(kind: type[PearsonLoss]) -> None:
    encoder = encoder_of(tiny_mistral, "sum", 64)
    columns = [SENTENCES[:8], SENTENCES[4:12]]
    labels = torch.tensor([0.0, 5.0, 3.2, 1.4, 4.8, 2.0, 2.6, 0.4])
    rows = [
        {"sentence1": first, "sentence2": second, "gold_label": label}
        for first, second, label in zip(*columns, labels.tolist(), strict=True)
    ]
    batch, ids = views(encoder, columns)
    theirs = their_rows("tune.py", encoder, rows, "sum")
    assert ids == [row[name] for name in ("input_ids", "pair") for row in theirs]

    scope = definitions(
        REPOSITORY, "code/tune.py", "PearsonCorrelationLoss", "SentembTrainer", Trainer=object
    )
    trainer = scope["SentembTrainer"]()
    trainer.is_sts = True
    model = copy.deepcopy(encoder.backbone)
    block = left_padded([row[name] for name in ("input_ids", "pair") for row in theirs])

    def their_loss(step: int) -> Tensor:
        value: Tensor = trainer.compute_loss(
            model, {"input_ids": block[:8], "pair": block[8:], "label": labels}
        )
        return value

    loss = kind()

    def our_loss(step: int) -> Tensor:
        return loss(encoder(batch).view(2, 8, -1), labels)

    if kind is PearsonLoss:  # the plain correlation: theirs is 1 - r (B - 1) / B
        assert 1 - their_loss(0).item() == pytest.approx((1 - our_loss(0).item()) * 7 / 8, rel=1e-5)
        return
    mine, other = optimizers(encoder, model)
    five_updates(encoder, our_loss, mine, model, their_loss, other, without_prefix)


class OldTokenizer:
    """A tokenizer with the method that their evaluation calls, padding on the left."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = copy.deepcopy(tokenizer)
        self.tokenizer.pad_token_id, self.tokenizer.padding_side = 0, "left"

    def batch_encode_plus(self, sentences: list[str], **settings: Any) -> Any:
        return self.tokenizer(sentences, **settings)


def test_scores(tmp_path: Path) -> None:
    """Vectors and scores of a year of STS: their text edit, template and batches, and SentEval's scores."""
    folder = tmp_path / "senteval" / "STS" / "STS13-en-test"
    folder.mkdir(parents=True)
    (tmp_path / "senteval" / "counts.json").write_text("{}")
    draw = np.random.default_rng(0)
    distinct = draw.permutation(
        list(combinations(SENTENCES, 2))
    ).tolist()  # equal cosines would differ by rounding
    for subset in ("FNWN", "headlines", "OnWN"):
        pairs = [distinct.pop() for _ in range(9)]
        golds = [f"{score:.2f}" for score in draw.uniform(0, 5, 8)] + [""]  # the last is not scored
        (folder / f"STS.input.{subset}.txt").write_text("".join(f"{a}\t{b}\n" for a, b in pairs))
        (folder / f"STS.gs.{subset}.txt").write_text("".join(f"{gold}\n" for gold in golds))

    encoder = encoder_of(tiny_mistral, "sum", 64).eval()
    encoder.set_evaluation("official", max_length=None)
    ours = evaluate_sts(encoder, load_sts_tasks(tmp_path, ("STS13",)))["tasks"]["STS13"]

    args = types.SimpleNamespace(
        mask_embedding_sentence=True, mask_embedding_sentence_template=TEMPLATES["sum"][1], avg=False
    )
    batcher = definitions(
        REPOSITORY,
        "code/evaluation.py",
        "batcher",
        args=args,
        tokenizer=OldTokenizer(encoder.tokenizer.tokenizer),
        model=encoder.backbone,
        device="cpu",
    )["batcher"]
    utils = definitions("SimCSE", "SentEval/senteval/utils.py", "cosine", np=np)
    scope = definitions(
        "SimCSE",
        "SentEval/senteval/sts.py",
        "STSEval",
        "STS13Eval",
        np=np,
        io=io,
        logging=logging,
        pearsonr=pearsonr,
        spearmanr=spearmanr,
        cosine=utils["cosine"],
    )

    class Params(dict[str, Any]):
        batch_size = 4

    task = scope["STS13Eval"](str(folder))
    task.do_prepare(Params(), lambda params, samples: None)
    theirs = task.run(Params(), lambda params, batch: batcher(params, batch).numpy())
    assert theirs["FNWN"]["nsamples"] == 8
    assert ours["spearman"] == pytest.approx(100 * theirs["all"]["spearman"]["all"], abs=1e-6)
