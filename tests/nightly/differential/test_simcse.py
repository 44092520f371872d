"""SimCSE with and without hard negatives, and MixCSE, against their code."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from sts_lightning.losses.infonce import InfoNCELoss
from sts_lightning.papers.losses.paper_code import PaperCodeMixCSELoss
from sts_lightning.testing.tiny_bert import tiny_bert
from tests.nightly.differential.compare import SENTENCES, close, right_padded, spread, views
from tests.nightly.differential.papers_code import definitions
from tests.nightly.differential.simcse_forks import Fork, blocks, five_adamw_updates, prepared

SIZE = 8


@pytest.mark.parametrize(("method", "count"), [("simcse", 2), ("simcse", 3), ("mixcse", 2)])
def test_training(method: str, count: int) -> None:
    encoder = spread(tiny_bert(dropout=0.0, pooling="cls", max_length=32, projection="always"))
    places = {
        "simcse": ("SimCSE", "simcse/models.py"),
        "mixcse": ("MixCSE_AAAI2022", "mixcse/models_mix.py"),
    }
    theirs = Fork(encoder, *places[method], "Pooler")
    theirs.lambdas = 0.2
    columns = [SENTENCES[:SIZE], SENTENCES[2 : 2 + SIZE], SENTENCES[4 : 4 + SIZE]][:count]
    batch, rows = views(encoder, columns)
    tokenizer = encoder.tokenizer.tokenizer
    assert rows == prepared("SimCSE", "train.py", tokenizer, columns)
    assert max(map(len, rows)) == 32  # some are cut
    loss = InfoNCELoss() if method == "simcse" else PaperCodeMixCSELoss()
    block, mask = right_padded(rows, tokenizer.pad_token_id)
    pooled = theirs.mlp(theirs.backbone(block, attention_mask=mask).last_hidden_state[:, 0])
    close(encoder(batch), pooled, 1e-5)
    given = blocks(rows, count, tokenizer.pad_token_id)
    five_adamw_updates(
        encoder,
        lambda step: loss(encoder(batch).view(count, SIZE, -1)),
        theirs,
        lambda step: theirs(*given).loss,
    )


@pytest.mark.parametrize(
    ("ours", "pooler"), [("cls", "cls"), ("mean", "avg"), ("first_last_mean", "avg_first_last")]
)
def test_poolers(ours: Any, pooler: str) -> None:
    encoder = spread(tiny_bert(pooling=ours)).eval()
    rows = encoder.tokenizer(SENTENCES)
    ids, mask = right_padded(rows, encoder.tokenizer.tokenizer.pad_token_id)
    scope = definitions("SimCSE", "simcse/models.py", "Pooler")
    with torch.no_grad():
        output = encoder.backbone(ids, attention_mask=mask, output_hidden_states=True)
        theirs = scope["Pooler"](pooler)(mask, output)
    close(torch.from_numpy(encoder.encode(SENTENCES)), theirs, 1e-5)
