"""The cells of a grid of heads, composed from overrides with several values."""

from __future__ import annotations

import copy
import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass

from hydra import compose
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from sts_lightning.config.composing import composing
from sts_lightning.config.composition_errors import explain
from sts_lightning.config.constraints import check_config
from sts_lightning.config.keys import check_known
from sts_lightning.errors import ConfigError
from sts_lightning.workflows.trainer_checks import check_settings

VARIED = ("seed", "loss", "optim.")
"""Settings that may differ between the heads of a grid: these, and what is below ``loss`` and ``optim``."""

MOST_HEADS = 10_000
"""Number of heads beyond which a grid is taken for a mistake."""


@dataclass(frozen=True)
class Cell:
    """A head of the grid.

    Attributes:
        values: Its value of each setting that differs, as text.
        cfg: The configuration of `train.py` that would train it alone.
    """

    values: dict[str, str]
    cfg: DictConfig

    @property
    def name(self) -> str:
        """Name of its folder: the values, in characters that need no quotes in an override."""
        text = "_".join(f"{key.removeprefix('loss.')}-{value}" for key, value in self.values.items())
        return re.sub(r"[^\w.+-]", "-", text) or "head"


def compose_cells(overrides: Sequence[str]) -> list[Cell]:
    """Compose the configuration of every head, the product of all values.

    Args:
        overrides: Overrides as on the command line of ``train.py -m``.

    Raises:
        ConfigError: An override is wrong, or another setting than `VARIED` has several values.
    """
    texts = list(overrides)
    if not any(text.startswith("name=") for text in texts):
        texts.append("name=heads")  # names of choices are known in a Hydra job only
    try:
        parsed = OverridesParser.create().parse_overrides(texts)
        swept = [one for one in parsed if one.is_sweep_override()]
        for one in swept:
            _check_varied(one)
        fixed = [one.input_line for one in parsed if not one.is_sweep_override() and one.input_line]
        choices = [[(one.get_key_element(), text) for text in one.sweep_string_iterator()] for one in swept]
        with composing():
            return _composed(fixed, [dict(values) for values in itertools.product(*choices)])
    except (HydraException, OmegaConfBaseException) as error:
        raise explain(error, "train", texts) from error


def _check_varied(swept: Override) -> None:
    key = swept.get_key_element()
    if key not in VARIED and not key.startswith(("loss.", "optim.")):
        raise ConfigError(
            f"{key} has several values, but the heads of a grid share their data and encoder: only seed, "
            "loss, loss.* and optim.* may differ.",
            key=key,
            hint=f"Run the command once for each value of {key}, or train each run whole: train.py -m.",
        )
    if not swept.is_discrete_sweep() and not swept.is_range_sweep():
        raise ConfigError(f"{key}: a grid needs values, as in {key}=1,2.", key=key)


def _composed(fixed: list[str], cells: list[dict[str, str]]) -> list[Cell]:
    if len(cells) > MOST_HEADS:
        raise ConfigError(f"the grid has {len(cells):,} heads; at most {MOST_HEADS:,} are trained at once.")
    bases: dict[str | None, DictConfig] = {}
    made = []
    for values in cells:
        choice = values.get("loss")
        if choice not in bases:  # composing takes a third of a second, setting a value does not
            bases[choice] = compose("train", [*fixed, *([] if choice is None else [f"loss={choice}"])])
        cfg = copy.deepcopy(bases[choice])
        for key, text in values.items():
            if key != "loss":
                value = OverridesParser.create().parse_override(f"{key}={text}").value()
                OmegaConf.update(cfg, key, value, force_add=False)
        check_known(cfg)
        made.append(Cell(values, check_config(cfg)))
        check_settings(made[-1].cfg.trainer, made[-1].cfg.data.batch_size)
    return made
