from __future__ import annotations

import logging
from collections.abc import Callable
from itertools import chain
from pathlib import Path

import pytest
from omegaconf import DictConfig

from sts_lightning.config.check import check_config
from sts_lightning.core.errors import ConfigError, DataError
from sts_lightning.data.module import DataModule
from sts_lightning.losses.infonce import InfoNCELoss
from sts_lightning.losses.joint import JointLoss
from sts_lightning.losses.pearson import PearsonLoss
from sts_lightning.training.assembly import make_data
from sts_lightning.workflows.preflight import check_fit
from tests.support.parts import part

Config = Callable[..., DictConfig]

TRIPLETS = part("nli", "toy", kind="triplets", train_size=50, batch_size=8)


def made(config: Config, *overrides: str) -> DictConfig:
    return check_config(config(*overrides))


def joint(config: Config, *parts: list[str], settings: str = "") -> DataModule:
    data = make_data(made(config, "data=joint", *chain(*parts), *settings.split()))
    data.connect(lambda views, _, **options: [list(view) for view in views], lambda views, _: views)
    data.setup()
    return data


def test_a_batch_has_the_views_and_labels_of_its_part(config: Config) -> None:
    data = joint(
        config,
        TRIPLETS,
        part("cls", "toy", kind="classes", train_size=30),
        part("sts", "toy", train_size=40),
    )
    assert (data.widest, data.batch_sizes["cls"]) == ("cls", 64)
    own = {"nli": (3, None), "cls": (2, "int64"), "sts": (2, "float32")}
    alone = {
        name: make_data(made(config, "data=toy", f"data.kind={kind}", f"data.train_size={size}"))
        for name, kind, size in (("nli", "triplets", 50), ("cls", "classes", 30), ("sts", "pairs", 40))
    }
    seen: dict[str, list[str]] = {name: [] for name in own}
    for batch in data.train_dataloader():
        views, dtype = own[batch.part]
        assert len(batch.rows) == batch.num_views == views
        assert (None if batch.labels is None else str(batch.labels.dtype).removeprefix("torch.")) == dtype
        seen[batch.part] += batch.rows[0]
    for name, source in alone.items():
        source.setup()
        assert sorted(seen[name]) == sorted(source.train["sentence1"][:]), name


def test_an_epoch_has_each_example_once_or_batches_in_shares(config: Config) -> None:
    parts = (TRIPLETS, part("sts", "toy", train_size=40, batch_size=10))
    assert {name: len(part.starts) for name, part in joint(config, *parts).rows.items()} == {
        "nli": 7,
        "sts": 4,
    }
    data = joint(config, *parts, settings="data.shares={nli:1,sts:3}")
    assert {name: len(part.starts) for name, part in data.rows.items()} == {"nli": 1, "sts": 4}
    assert data.epoch_rows == 48
    loader = data.train_dataloader()
    assert len(loader) == 5
    drawn = [next(batch.rows[0] for batch in loader if batch.part == "nli") for _ in range(6)]
    assert len({text for rows in drawn for text in rows}) > 20  # drawn anew in each epoch


def test_one_batch_size_for_all_parts(config: Config) -> None:
    data = joint(config, TRIPLETS, part("sts", "toy", train_size=40), settings="data.batch_size=5")
    assert data.batch_sizes == {"nli": 5, "sts": 5}
    assert data.widest == "nli"


def test_the_dev_pairs_of_one_part_select(config: Config) -> None:
    parts = ([*TRIPLETS, "data.parts.nli.dev_size=30"], part("sts", "toy", dev_size=20))
    assert len(joint(config, *parts).dev) == 20
    assert len(joint(config, *parts, settings="data.dev_part=nli").dev) == 30


def write(path: Path, header: str, rows: list[str]) -> Path:
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


def test_parts_have_files_of_their_own_and_dev_pairs_among_others_are_reported(
    config: Config, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    scored = write(
        tmp_path / "scored.csv", "sentence1,sentence2,score", [f"a{n},b{n},{n % 6}" for n in range(40)]
    )
    dev = write(tmp_path / "dev.csv", "sentence1,sentence2,score", [f"c{n},d{n},{n % 6}" for n in range(10)])
    positives = write(
        tmp_path / "positives.csv", "sentence1,sentence2", [*(f"a{n},b{n}" for n in range(9)), "d3,c3"]
    )
    with caplog.at_level(logging.INFO, "sts_lightning"):
        data = joint(
            config,
            part("pos", "triplets_file", path=positives, columns="[sentence1,sentence2]", dev_path=scored),
            part("mine", "pairs_file", path=scored, dev_path=dev),
        )
    assert len(data.train) == 50
    assert "1 of 10 training pairs also occur in the dev pairs of mine (in pos)" in caplog.text
    assert "pos: positives.csv" in caplog.text
    assert [count.kept for count in data.counts[:2]] == [10, 40]


def test_a_part_with_a_single_example_is_rejected(config: Config, tmp_path: Path) -> None:
    one = write(tmp_path / "one.csv", "sentence1,sentence2", ["a,b"])
    dev = write(tmp_path / "dev.csv", "sentence1,sentence2,score", [f"c{n},d{n},{n % 6}" for n in range(10)])
    mine = part("mine", "triplets_file", path=one, columns="[sentence1,sentence2]", dev_path=dev)
    with pytest.raises(DataError, match="1 training example left in mine"):
        joint(config, mine, TRIPLETS)


def test_a_part_needs_a_loss_that_fits_it(config: Config) -> None:
    data = joint(config, TRIPLETS, part("sts", "toy", train_size=40))
    settings = made(config, "data=joint", *TRIPLETS, *part("sts", "toy")).data
    check_fit(JointLoss({"nli": InfoNCELoss(), "sts": PearsonLoss()}), data, settings)
    with pytest.raises(ConfigError, match=r"needs 2 views .* this data \(nli\) gives 3 views") as caught:
        check_fit(JointLoss({"nli": PearsonLoss(), "sts": PearsonLoss()}), data, settings)
    assert caught.value.key == "loss.parts.nli"
    with pytest.raises(ConfigError, match="has losses for nli, but this data has the parts nli, sts"):
        check_fit(JointLoss({"nli": InfoNCELoss()}), data, settings)
    with pytest.raises(ConfigError, match=r"this data \(nli\) gives 3 views"):
        check_fit(PearsonLoss(), data, settings)
    with pytest.raises(ConfigError, match="this data has no parts"):
        check_fit(JointLoss({"nli": InfoNCELoss()}), make_data(made(config, "data=toy")))
