from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from omegaconf import DictConfig

from sts_lightning.config.check import check_config
from sts_lightning.core.errors import ConfigError, DataError
from sts_lightning.data.dev_and_tests import DevAndTests
from sts_lightning.training.assembly import assemble, make_data
from sts_lightning.workflows.preflight import check_components
from tests.conftest import CONF
from tests.support.parts import losses, part

Config = Callable[..., DictConfig]

OWN = {"pairs_file", "pairs_hub", "toy"}
"""Choices whose dev and test pairs are not SentEval's."""

RECOGNISED = {"labels_file", "triplets_file", "triplets_hub"}
"""Choices that read the head of the file at once, unless its columns are named."""


@pytest.mark.parametrize("choice", sorted(path.stem for path in (CONF / "data").glob("*.yaml")))
def test_settings_of_the_top_level_reach_every_data_set(
    choice: str, config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[DevAndTests] = []
    build = DevAndTests.__init__

    def noted(self: DevAndTests, *arguments: Any, **options: Any) -> None:
        build(self, *arguments, **options)
        made.append(self)

    monkeypatch.setattr(DevAndTests, "__init__", noted)
    file = tmp_path / "mine.csv"
    given = ["data_root=elsewhere", "senteval_text=prepared", "dev=stsb_clean"]
    path = [] if choice in ("sts", "toy") else [f"path={file}"]
    further = [*part("nli", "nli_triplets"), *part("sts", "sts")] if choice == "joint" else []
    if choice in RECOGNISED:
        further = ["data.columns=[a,b]"]
    data = make_data(check_config(config(f"data={choice}", *path, *given, *further)))
    of_label = {"score": "pearson", "class": "cross_entropy", "none": "infonce"}
    loss = [f"loss={of_label[data.data_set.label]}"]
    if choice == "joint":
        loss = losses(nli="infonce", sts="pearson")
    fits = check_config(config(f"data={choice}", *loss, *path, *given, *further))
    if choice in OWN:
        with pytest.raises(ConfigError, match="dev=stsb_clean has no effect on this data"):
            check_components(assemble(fits, "meta"))
    else:
        check_components(assemble(fits, "meta"))
        assert (made[-1].root, made[-1].text, made[-1].dev) == ("elsewhere", "prepared", "stsb_clean")
    if path and not choice.endswith("_hub"):  # which reads no file of this machine
        with pytest.raises(DataError, match=r"mine\.csv"):
            data.setup()


def test_seeds_share_the_dev_split_unless_it_has_a_seed(config: Config, tmp_path: Path) -> None:
    """While the order of the batches follows the seed of the run; so it is in a part of joint data."""
    path = tmp_path / "mine.csv"
    path.write_text("sentence1,sentence2,score\n" + "".join(f"a{n},b{n},{n % 5}\n" for n in range(60)))

    def dev(*overrides: str, data: str = "pairs_file") -> tuple[list[str], list[list[int]]]:
        made = make_data(check_config(config(f"data={data}", f"path={path}", *overrides)))
        made.connect(lambda views, _, **options: views, lambda views, _: views)
        made.setup()
        return made.dev["sentence1"][:], made.train_dataloader().first_epoch()

    (first, order), (second, other) = dev("seed=1"), dev("seed=2")
    assert first == second
    assert order != other
    assert dev("seed=2", "data.seed=2")[0] != first
    assert dev("seed=2", "data.seed=2")[1] != dev("seed=1", "data.seed=2")[1]
    toy = part("toy", "toy", train_size=20)
    assert dev("seed=2", *toy, *part("own", "pairs_file"), data="joint")[0] == first
    assert dev(*toy, *part("own", "pairs_file", seed=2), data="joint")[0] != first


def test_what_a_run_has_read_is_hashed(config: Config, tmp_path: Path) -> None:
    def content(score: float = 1.0, ending: str = "") -> dict[str, Any]:
        rows = [f"a{n},b{n},{score if n == 0 else n % 5}\n" for n in range(60)]
        path = tmp_path / "mine.csv"
        path.write_text("sentence1,sentence2,score\n" + "".join(rows) + ending)
        data = make_data(check_config(config("data=pairs_file", f"path={path}", f"data.test_path={path}")))
        data.setup()
        return data.content

    before, same, other = content(), content(ending="\n"), content(5.0)
    assert {"train", "dev", "tests", "files"} == before.keys() == same.keys()
    assert [key for key in before if same[key] != before[key]] == ["files"]  # another file of the same rows
    assert other["tests"] != before["tests"]
    assert (other["train"], other["dev"]) != (before["train"], before["dev"])
