"""One concept, one stem, four places."""

from __future__ import annotations

import inspect
from importlib import import_module

import pytest
import yaml

from sts_lightning import losses
from sts_lightning.config.folders import files_of
from sts_lightning.losses import all_losses
from tests.conftest import ROOT

FACTS = ("dimension", "top_label")
"""Arguments that follow from the model and the data, and are no settings."""


def test_each_loss_has_module_yaml_and_test() -> None:
    stems = set(all_losses())
    assert stems == files_of("loss").keys()
    for kind in all_losses().values():
        *folders, file = kind.__module__.split(".")[1:]
        assert ROOT.joinpath("tests", "unit", *folders, f"test_{file}.py").is_file()


@pytest.mark.parametrize("stem", sorted(all_losses()))
def test_yaml_names_every_argument_with_its_default(stem: str) -> None:
    values = yaml.safe_load(files_of("loss")[stem].read_text())
    target = values.pop("_target_")
    values.pop("defaults", None)
    loss = all_losses()[stem]
    assert target == f"{loss.__module__}.{loss.__qualname__}"
    assert loss.__qualname__.lower() == f"{stem.replace('_', '')}loss"
    arguments = {
        name: parameter.default
        for name, parameter in inspect.signature(loss.__init__).parameters.items()
        if name not in ("self", *FACTS)
    }
    if (growth := getattr(loss, "default_k", None)) is not None:  # of two losses with one signature
        assert arguments["k"] is None
        arguments["k"] = growth
    assert values == arguments


def test_a_class_is_imported_by_its_name_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    imported = []
    monkeypatch.setattr(losses, "import_module", lambda name: imported.append(name) or import_module(name))
    for kind in all_losses().values():
        imported.clear()
        assert getattr(losses, kind.__name__) is kind
        assert set(imported) - set(losses.PACKAGES) == {kind.__module__}
    with pytest.raises(AttributeError, match="PearsnLoss"):
        _ = losses.PearsnLoss
