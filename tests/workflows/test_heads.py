"""A grid of heads against the runs of its cells, one by one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from sts_lightning.errors import ConfigError, FinishedRunError
from sts_lightning.evaluation.vector_cache import PROBES
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.runs.folder import RunFolder
from sts_lightning.workflows import heads
from sts_lightning.workflows.head_cells import compose_cells
from sts_lightning.workflows.heads import train_heads
from sts_lightning.workflows.train import train_in
from tests.conftest import SHORT_RUN
from tests.data.hub_folder import rows, save
from tests.scenarios.helpers import metrics

FROZEN = [
    *SHORT_RUN,
    "freeze=encoder",
    "loss=smooth_k2",
    "optim.lr=1e-2",
    "data.batch_size=16",
    "data.train_size=250",
    "trainer.max_epochs=2",
    "trainer.limit_train_batches=14",
    "trainer.max_steps=25",
    "trainer.log_every_n_steps=1",
    "trainer.gradient_clip_val=0.5",
    "logger=csv",
]
"""Two epochs of the same pairs, both cut short; clipping that takes effect; the last batch is smaller."""

VARIED = ["loss=translated_relu,smooth_k2", "loss.k=1,3", "optim.lr=1e-2,1e-3", "seed=1,2"]


def last(run: Path) -> dict[str, torch.Tensor]:
    state: dict[str, torch.Tensor] = RunFolder(run).read_checkpoint("last")["state_dict"]
    return state


@pytest.mark.slow
def test_equals_the_runs_one_by_one(tmp_path: Path) -> None:
    cells = compose_cells([*FROZEN, *VARIED])
    assert len(cells) == 16
    grid = train_heads(cells, tmp_path / "grid")
    for number in (0, 15):  # differ in everything that varies
        cell, head = cells[number], grid.heads[number]
        alone = tmp_path / cell.name
        train_in(alone, cell.cfg)
        together = tmp_path / "grid" / cell.name
        expected, found = last(alone), last(together)
        assert expected.keys() == found.keys()
        for name, value in expected.items():
            torch.testing.assert_close(found[name], value, rtol=0, atol=1e-6)
        course = [
            row["train/loss"] for row in RunFolder(alone).history() if row.get("train/loss") is not None
        ]
        assert len(course) == 25
        np.testing.assert_allclose(head.losses, course, rtol=1e-6)
        assert metrics(together)["dev"] == pytest.approx(metrics(alone)["dev"], abs=1e-4)


@pytest.mark.slow
def test_a_stopped_grid_encodes_nothing_again_and_ends_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = compose_cells([*FROZEN, "seed=1,2"])
    whole = train_heads(cells, tmp_path / "whole")
    with monkeypatch.context() as patched:
        patched.setattr(heads, "fit_heads", _stop)
        with pytest.raises(KeyboardInterrupt):
            train_heads(cells, tmp_path / "grid")
    encoded: list[str] = []
    encode = SentenceEncoder.encode

    def count(self: SentenceEncoder, sentences: list[str], **options: bool) -> np.ndarray:
        encoded.extend(sentences)
        return encode(self, sentences, **options)

    monkeypatch.setattr(SentenceEncoder, "encode", count)
    grid = train_heads(cells, tmp_path / "grid")
    assert set(encoded) == set(PROBES)  # which show that the stored vectors are this encoder's
    for one, two in zip(whole.heads, grid.heads, strict=True):
        assert one.losses.tolist() == two.losses.tolist()
        assert one.scores == two.scores
    with pytest.raises(FinishedRunError, match="--to"):
        train_heads(cells, tmp_path / "grid")


def _stop(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.slow
def test_a_run_starts_from_a_head(tmp_path: Path) -> None:
    cells = compose_cells([*FROZEN, "loss.k=1,3"])
    train_heads(cells, tmp_path / "grid")
    start = tmp_path / "grid" / cells[1].name
    [tuned] = compose_cells([*FROZEN, "loss.k=3", f"init_from={start}", "init=final", "freeze=none"])
    tuned.cfg.trainer.max_steps = 1
    tuned.cfg.optim.lr = 1e-12
    train_in(tmp_path / "tuned", tuned.cfg)
    found, expected = last(tmp_path / "tuned"), last(start)
    torch.testing.assert_close(found["loss.head.weight"], expected["loss.head.weight"])


@pytest.mark.slow  # composes
@pytest.mark.parametrize(
    ("override", "key"),
    [
        ("freeze=encoder_with_dropout", "freeze"),
        ("freeze=none", "freeze"),
        ("precision=bf16-mixed", "trainer.precision"),
        ("evaluation.precision=bf16-true", "evaluation.precision"),
        ("init_from=runs/a", "init_from"),
        ("trainer.devices=2", "trainer.devices"),
        ("callbacks=early_stopping", "callbacks"),
        ("regularizer=rank_reduction", "regularizer"),
        ("+trainer.extra.profiler=simple", "trainer.extra"),
        ("prompt=promptbert_views", "prompt.view_templates"),
        ("optim.lr=-1", "optim.lr"),
    ],
)
def test_rejects_what_cannot_share_vectors(override: str, key: str, tmp_path: Path) -> None:
    cells = compose_cells([*FROZEN, override])
    with pytest.raises(ConfigError) as caught:
        train_heads(cells, tmp_path / "grid")
    assert caught.value.key == key
    assert not (tmp_path / "grid").exists()


@pytest.mark.slow  # builds
def test_rejects_a_loss_without_a_regression_head(tmp_path: Path) -> None:
    cells = compose_cells([*FROZEN, "loss=pearson"])
    with pytest.raises(ConfigError) as caught:
        train_heads(cells, tmp_path / "grid")
    assert caught.value.key in ("freeze", "loss")


@pytest.mark.parametrize("same", [False, True])
def test_seeds_that_draw_other_dev_pairs_are_no_grid(same: bool, tmp_path: Path) -> None:
    path = save(tmp_path, "mine", rows(40), "csv")
    data = ["data=pairs_file", f"path={path}", "data.batch_size=16", *(["data.seed=0"] if same else [])]
    short = [text for text in SHORT_RUN if not text.startswith("data")]
    cells = compose_cells([*short, *data, "freeze=encoder", "loss=smooth_k2", "seed=1,2"])
    if same:
        assert len(train_heads(cells, tmp_path / "grid").heads) == 2
        return
    with pytest.raises(ConfigError, match="takes other dev pairs") as caught:
        train_heads(cells, tmp_path / "grid")
    assert caught.value.key == "data.seed"


@pytest.mark.parametrize(
    ("override", "key"),
    [
        ("resume=x", "resume"),
        ("evaluation.rank=true", "evaluation.rank"),
        ("trainer.keep_every=1", "trainer.keep_every"),
    ],
)
def test_settings_without_effect_on_a_grid(override: str, key: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        train_heads(compose_cells([*FROZEN, override]), tmp_path / "grid")
    assert caught.value.key == key


@pytest.mark.parametrize(
    ("override", "key"), [("+foo=1", "foo"), ("trainer.val_every=0", "trainer.val_every")]
)
def test_settings_that_a_run_rejects_are_rejected(override: str, key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        compose_cells([*FROZEN, override])
    assert caught.value.key == key
