"""Time a BERT beside sentence-transformers on any device, without data: a step of `make check-gpu`.

Sentences are those of the toy language, as many as the seven tasks have. Evaluation: each sentence is
encoded once by both, by the peer in batches of 32, as its evaluators do, and of 256. Training: the steps of
`train_step.py`, batches of 64 pairs, ours deterministic. Both have the same weights: MiniLM's, or random ones
of another shape.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from common import CONFIG
from datasets import Dataset
from sentence_transformers import SentenceTransformer
from train_step import BATCH, our_steps, their_steps
from transformers import AutoTokenizer, BertConfig, BertModel, logging

from sts_lightning.core.choices import Precision
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.models.loading.backbone import DTYPES
from sts_lightning.models.loading.hub import find
from sts_lightning.testing.toy import toy

SENTENCES = 26_798
"""Distinct sentences of the seven tasks."""

SHAPES: dict[str, dict[str, Any]] = {
    "minilm": {},
    "bert_base": {"hidden_size": 768},
    "tiny": {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 128},
}


def write(shape: str, folder: Path) -> str:
    """Write random weights of a shape with MiniLM's tokenizer, and return their folder."""
    source, options = find(CONFIG.model.name)
    if not SHAPES[shape]:
        return source
    torch.manual_seed(0)
    BertModel(BertConfig(**SHAPES[shape])).save_pretrained(folder)
    AutoTokenizer.from_pretrained(source, **options).save_pretrained(folder)
    return str(folder)


def rate(encode: Callable[[list[str]], Any], texts: list[str]) -> float:
    """Return sentences per second; the vectors are on the host, so nothing is left to wait for."""
    encode(texts[:512])
    begin = time.perf_counter()
    encode(texts)
    return len(texts) / (time.perf_counter() - begin)


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shape", choices=list(SHAPES), default="minilm")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--sentences", type=int, default=SENTENCES)
    parser.add_argument("--steps", type=int, default=30)
    options = parser.parse_args()
    logging.disable_progress_bar()
    pairs = toy(train_size=max(2 * options.sentences, BATCH * options.steps)).read().train
    texts = list(dict.fromkeys(pairs["sentence1"]))[: options.sentences]
    table = Dataset.from_dict({**pairs[: BATCH * options.steps].columns})
    trainer = "trainer=gpu" if options.device == "cuda" else "trainer=cpu"
    precisions: tuple[Precision, ...] = ("32-true", "bf16-true")
    with tempfile.TemporaryDirectory() as folder:
        source = write(options.shape, Path(folder))
        ours = SentenceEncoder.from_pretrained(source, pooling="mean").to(options.device).eval()
        theirs = SentenceTransformer(source, device=options.device)
        for precision in precisions:
            theirs.to(DTYPES[precision])
            rates = {"ours": rate(ours.set_precision(precision).encode, texts)}
            for size in (32, 256):
                encode = partial(theirs.encode, batch_size=size, show_progress_bar=False)
                rates[f"theirs {size}"] = rate(encode, texts)
            text = ", ".join(f"{name} {found:.0f}" for name, found in rates.items())
            print(f"{len(texts)} sentences, {precision}: {text} a second")
        further = [trainer, f"model.name='{source}'"]
        for bf16 in (False, True):
            mine = our_steps(table, "bf16-mixed" if bf16 else "32-true", further=further)
            model = SentenceTransformer(source, device=options.device)
            yours = their_steps(table, "CoSENTLoss", bf16, model)
            one, two = (f"{1000 * statistics.median(found):.1f} ms" for found in (mine, yours))
            print(f"step of {BATCH} pairs, {'bf16-mixed' if bf16 else '32-true'}: ours {one}, theirs {two}")


if __name__ == "__main__":
    main()
