"""Padding of real batches in the chunks that each card takes."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
from omegaconf import DictConfig

from sts_lightning.config.check import check_config
from sts_lightning.core.cards import CARDS
from sts_lightning.core.hardware import TRAINING_CHUNKS
from sts_lightning.training.assembly import assemble
from sts_lightning.workflows.preflight import check_rows

Config = Callable[..., DictConfig]

DECODERS = [
    "experiment=pcc_stage1 model=mistral7b prompt=eol",
    "experiment=pcc_stage2 model=mistral7b prompt=eol init_from=null",
    "experiment=cse_sfp model=mistral7b",
    "experiment=bellm",
]
ENCODERS = ["loss=pearson", "experiment=minilm_nli", "experiment=simcse_sup"]


@pytest.mark.parametrize(
    ("recipe", "cards"),
    [
        *((recipe, ["h100", "rtx4090", "l4"]) for recipe in DECODERS),
        # On a fast card the launches of a second chunk take longer than the padding of one.
        *((recipe, ["t4"]) for recipe in ENCODERS),
    ],
)
def test_a_tenth_of_the_tokens_is_padding_at_most(
    recipe: str, cards: list[str], config: Config, data_root: str
) -> None:
    cfg = check_config(config(*recipe.split(), f"data_root={data_root}", "evaluation.final=false"))
    drawn = assemble(cfg, "meta", "bf16-mixed")
    check_rows(drawn)
    data, encoder = drawn.data, drawn.encoder
    data.num_workers, data.numbered = 0, ()
    for name in cards:
        card = CARDS[name]
        launch = encoder.launch_tokens(card, card.precision)
        prepare = (encoder.prepare(TRAINING_CHUNKS["gpu"], training, launch) for training in (True, False))
        data.connect(*prepare)
        batches = [batch.rows for batch in itertools.islice(data.train_dataloader(), 5)]
        for limit in (None, 4000):  # as it starts, and once memory has run out
            divided = [rows.limited(most_tokens=limit) for rows in batches]
            padded = sum(rows.padded_tokens for rows in divided) / sum(rows.num_tokens for rows in divided)
            assert 1 <= padded <= 1.10
            assert all(rows.largest_chunk[0] * rows.largest_chunk[1] <= (limit or 16384) for rows in divided)
