"""Share of padding among the tokens of training and evaluation: `python benchmarks/padding.py`.

Chunks hold sentences of similar length; what is left of the padding is what unpadded batches would save.
Tokens are counted in the first batches of MiniLM's runs, as chunks and as one block of a batch, and in the
seven test sets.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from hydra import compose
from torch import Tensor

from sts_lightning.config.build import build
from sts_lightning.config.compose import composing
from sts_lightning.config.machine import decide
from sts_lightning.data.module import SentenceDataModule
from sts_lightning.data.pair_tables import values_of
from sts_lightning.models.loading import build_encoder

RUNS = {
    "5,398 pairs": ["loss=pearson", "data=sts"],
    "NLI triplets": ["loss=infonce", "data=nli_triplets", "data.batch_size=512"],
    "NLI pairs": ["loss=smooth_k2", "data=nli_pairs"],
}
BATCHES = 20


def padding(chunks: Iterable[dict[str, Tensor]]) -> float:
    """Return the share of padding among the tokens of chunks."""
    masks = [chunk["attention_mask"] for chunk in chunks]
    return 1 - sum(int(mask.sum()) for mask in masks) / sum(mask.numel() for mask in masks)


def main() -> None:
    """Count and print."""
    with composing():
        base = compose("train")
    encoder = build_encoder(base.model, base.prompt)
    chunk_tokens = decide(base.trainer).chunk_tokens
    print(f"chunks of {chunk_tokens} tokens")
    for name, overrides in RUNS.items():
        with composing():
            cfg = compose("train", overrides)
        data: SentenceDataModule = build("data", cfg.data, SentenceDataModule)
        data.setup()
        shares = []
        for tokens in (chunk_tokens, 10**9):
            data.connect(encoder.prepare(tokens, True), encoder.prepare(tokens, False))
            batches = list(itertools.islice(data.train_dataloader(), BATCHES))
            shares.append(padding(chunk for batch in batches for chunk in batch.rows.chunks))
        print(f"{name}: padding {shares[0]:.1%} in chunks, {shares[1]:.1%} in one block of a batch")
    texts = {
        text
        for task in data.tests
        for table in task.subsets.values()
        for column in ("sentence1", "sentence2")
        for text in values_of(table, column)
    }
    rows = encoder.prepare(chunk_tokens, False)([sorted(texts)], [None])
    print(f"seven test sets: padding {padding(rows.chunks):.1%} in chunks")


if __name__ == "__main__":
    main()
