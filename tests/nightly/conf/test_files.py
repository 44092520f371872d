"""Every file of conf/."""

from __future__ import annotations

from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from sts_lightning.config.check import check_config, nodes
from sts_lightning.config.folders import files_of
from sts_lightning.config.stored import requests
from sts_lightning.losses import all_losses
from tests.support.run_entries import composed


def together(groups: tuple[str, ...]) -> list[str]:
    """One choice of each group at a time, until each choice has been used."""
    rows = zip_longest(*([f"{group}={name}" for name in files_of(group)] for group in groups))
    return [" ".join(filter(None, row)) for row in rows]


GROUPS = (
    "model",
    "prompt",
    "loss",
    "regularizer",
    "auxiliary",
    "data",
    "trainer",
    "recipe",
    "logger",
    "callbacks",
    "debug",
)

MASKING = {kind.__name__ for kind in all_losses().values() if "sentence_ids" in kind.needs.inputs}

UNNAMED = ("encoder", "decoder")
"""Starting points for any model, which have to be given one."""


@pytest.mark.parametrize("chosen", [*together(GROUPS), *together(("experiment",))])
def test_every_choice_fits_its_target_and_needs_no_consent(chosen: str, tmp_path: Path) -> None:
    unnamed = any(f"model={name}" in chosen.split() for name in UNNAMED)
    extra = ["model.name=owner/model"] if unnamed else []
    with composed("train", *chosen.split(), "name=test", "path=mine.csv", *extra, output=tmp_path) as cfg:
        checked = check_config(cfg)
    values: Any = OmegaConf.to_container(checked, resolve=True)
    assert list(requests(values)) == []
    if chosen.startswith("experiment="):  # the papers' code masks nothing, and our scores were measured so
        of_parts = values["loss"]["parts"] if values["data"].get("parts") else {"": values["loss"]}
        for name, loss in of_parts.items():
            data = values["data"]["parts"][name] if name else values["data"]
            classes = {str(node.get("_target_")).rpartition(".")[2] for _, node in nodes(loss)}
            assert data["mask_repeats"] is False or not classes & MASKING
