"""What needs the user's word, and that the word is enough."""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from omegaconf import DictConfig, OmegaConf

import sts_lightning
from sts_lightning.cli.main import main
from sts_lightning.config.allowed import is_known
from sts_lightning.config.trust import NOTHING, Trust, read_config, requests, wanted
from sts_lightning.errors import ConfigError, UntrustedError
from sts_lightning.losses import all_losses
from sts_lightning.reproduce.plan import Cell, Table, compose_job
from sts_lightning.reproduce.spec import Requirements, RowSpec, TableSpec
from sts_lightning.runs.folder import RunFolder
from sts_lightning.sweep.job import Job, Resources, job_folder, job_trust, run_job
from sts_lightning.workflows.train import train_in
from tests.conftest import CONF, SHORT_RUN
from tests.shared_runs import entries
from tests.shared_runs.entries import ENTRIES, SHORT, composed, edit, train_py

Config = Callable[..., DictConfig]

OWN = "from sts_lightning.losses.pearson import PearsonLoss\nclass MyLoss(PearsonLoss):\n    pass\n"


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The dotted name of a loss of the user's own."""
    module = f"own_{uuid.uuid4().hex}"
    (tmp_path / f"{module}.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    return f"{module}.MyLoss"


def choices(group: str) -> list[str]:
    return sorted(path.stem for path in (CONF / group).glob("*.yaml"))


GROUPS = ("model", "prompt", "loss", "regularizer", "data", "trainer", "logger", "callbacks", "experiment")


@pytest.mark.parametrize("choice", [f"{group}={name}" for group in GROUPS for name in choices(group)])
def test_what_the_project_ships_needs_no_consent(choice: str, tmp_path: Path) -> None:
    with composed("train", choice, "name=test", output=tmp_path) as cfg:
        values: Any = OmegaConf.to_container(cfg, resolve=True)
    assert requests(values) == []
    assert wanted(cfg) == NOTHING


def test_every_loss_is_known() -> None:
    """A new loss needs no entry anywhere."""
    for loss in all_losses().values():
        assert is_known(f"{loss.__module__}.{loss.__qualname__}", ("loss",))


@pytest.mark.parametrize(
    "target",
    [
        "sts_lightning.losses.mix.InfoNCELoss",  # imported there, if at all
        "sts_lightning.losses.mix.Loss",
        "sts_lightning.losses.mix.torch.load",
        "sts_lightning.losses.mix",
        "sts_lightning.losses...mix.MixLoss",
        "sts_lightning.losses.mix.MixLoss\n",
        " sts_lightning.losses.mix.MixLoss",
        "sts_lightning.losses.absent.AbsentLoss",
        "sts_lightning.losses.mix.MixLoss.__init__",
        "torch.nn.CosineEmbeddingLoss",
        "sts_lightning.data.sts.STSData",
    ],
)
def test_only_exact_names_are_known(target: str) -> None:
    assert not is_known(target, ("loss",))


def test_each_class_is_known_at_its_place_only() -> None:
    assert is_known("peft.LoraConfig", ("model", "adapter"))
    assert not is_known("peft.LoraConfig", ("model",))
    assert not is_known("peft.tuners.LoraConfig", ("model", "adapter"))
    assert not is_known("peft.get_peft_model", ("model", "adapter"))
    assert is_known("lightning.pytorch.callbacks.EarlyStopping", ("callbacks", "mine"))
    assert not is_known("lightning.pytorch.callbacks.EarlyStopping", ("logger", "mine"))
    assert not is_known("lightning.pytorch.callbacks.EarlyStopping", ("callbacks", "mine", "deeper"))
    assert not is_known("sts_lightning.testing.tiny_decoders._load", ("model",))
    assert not is_known("sts_lightning.models.backbone.load_backbone", ("model",))


def test_one_message_names_all_that_has_to_be_added(own: str, tmp_path: Path) -> None:
    cfg = {
        "model": {"_target_": "my.model", "trust_remote_code": True},
        "loss": {"_target_": own},
        "trainer": {"extra": {"plugins": "x"}},
        "evaluation": {},
        "prompt": {},
    }
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(cfg))
    with pytest.raises(UntrustedError) as caught:
        RunFolder(tmp_path).load_config()
    message = str(caught.value)
    names = ["my.model", own, "trainer.extra.plugins"]
    assert f"trust=[{','.join(names)}] trust_remote_code=true (train.py, eval.py)" in message
    assert f"--trust {' '.join(names)} --trust-remote-code (sts-lightning export)" in message
    assert f"trust={names!r}, trust_remote_code=True (sts_lightning.load)" in message
    trust = Trust.of(names, True)
    assert RunFolder(tmp_path).load_config(trust).loss._target_ == own
    for less in (Trust.of(names, False), Trust.of(names[:2], True), Trust.of(names[1:], True)):
        with pytest.raises(UntrustedError):
            RunFolder(tmp_path).load_config(less)


@pytest.mark.parametrize("value", ["${oc.env:HOME}", "x'; rm -rf ~; '.y", ["a"], {"a": "b"}])
def test_no_consent_is_offered_for_what_no_run_has(value: object, tmp_path: Path) -> None:
    """In particular no text that a shell would run when it is pasted."""
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump({"loss": {"_target_": value}}))
    with pytest.raises(UntrustedError, match="no run of this project has") as caught:
        read_config(path, Trust.of([str(value)], True))
    assert "trust=" not in str(caught.value)


def test_stored_consent_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump({"trust": ["a.b"], "trust_remote_code": True, "seed": 1}))
    assert read_config(path) == {"trust": [], "trust_remote_code": False, "seed": 1}


def test_a_run_with_a_class_of_the_users_own(
    own: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fresh run needs no consent, whatever it is built from; reading its folder does."""
    entries.no_suite(monkeypatch)
    train_py(tmp_path / "first", *SHORT, f"loss._target_={own}")
    name = f"trust=[{own}]"
    for number, (entry, read) in enumerate(ENTRIES.items()):
        run = shutil.copytree(tmp_path / "first", tmp_path / entry)
        if entry == "resume":
            (run / "metrics.json").unlink()
        with pytest.raises(UntrustedError, match=own):
            read(run, tmp_path / f"out{number}")
        read(run, tmp_path / f"out{number}", name)
    assert (tmp_path / "resume" / "metrics.json").is_file()
    assert sts_lightning.load(tmp_path / "first", trust=own).dimension == 32
    main(["export", str(tmp_path / "first"), str(tmp_path / "out"), "--format", "merged", "--trust", own])
    # The class is on this command line already.
    train_py(tmp_path / "second", *SHORT, f"loss._target_={own}", f"init_from={tmp_path / 'first'}")


def test_how_to_resume_names_the_consent(
    own: str, config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = []

    def stop(*arguments: Any, **settings: Any) -> None:
        commands.append(arguments[6])
        raise ConfigError("enough")

    monkeypatch.setattr("sts_lightning.workflows.train.make_trainer", stop)
    for name, more in (("own", [f"loss._target_={own}"]), ("plain", [])):
        with pytest.raises(ConfigError, match="enough"):
            train_in(tmp_path / name, config(*SHORT[:-1], *more))
    assert commands[0].endswith(f"resume={tmp_path / 'own'} 'trust=[{own}]'")
    assert commands[1].endswith(f"resume={tmp_path / 'plain'}")


def test_code_of_a_model_with_the_users_word(
    tmp_path: Path, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.shared_runs.changes import model_folder, of_that_folder

    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))
    marker, run = tmp_path / "marker", tmp_path / "run"
    train_in(run, config(*SHORT[:-1]))
    model_folder(run / "model", marker)
    path = run / "model" / "tokenizer_config.json"
    path.write_text(json.dumps({k: v for k, v in json.loads(path.read_text()).items() if k != "auto_map"}))
    edit(run / "config.yaml", of_that_folder(run / "model", trust_remote_code=True))
    with pytest.raises(UntrustedError, match="trust_remote_code=True"):
        sts_lightning.load(run, trust=["model.trust_remote_code", "trust_remote_code"])
    assert not marker.exists()
    encoder = sts_lightning.load(run, trust_remote_code=True)
    assert type(encoder.backbone).__name__ == "Model"
    assert marker.exists()


def test_stages_with_a_class_of_the_users_own(
    own: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command that composes them needs no consent; the one that resumes them does."""
    settings = [text for text in SHORT if not text.startswith("name=")]
    stages = ["+stages.one.experiment=stage2", "+stages.two.experiment=stage2", "name=both"]
    both = tmp_path / "both"
    train_py(both, *settings, *stages, f"loss._target_={own}")
    assert (both / "two" / "metrics.json").is_file()
    (both / "two" / "metrics.json").unlink()
    with pytest.raises(UntrustedError, match=r"stages\.yaml: stage one"):
        train_py(tmp_path / "out", f"resume={both}")
    train_py(tmp_path / "out", f"resume={both}", f"trust=[{own}]")
    assert (both / "two" / "metrics.json").is_file()


def test_a_sweep_hands_over_what_its_own_jobs_name(tmp_path: Path) -> None:
    """And no more: a name that only the folder has is not in it."""

    def compose(overrides: list[str]) -> DictConfig:
        return compose_job(CONF, "train", tuple(overrides))

    own = ["loss._target_=my.Loss", "model.trust_remote_code=true", "model=minilm"]
    assert job_trust(compose(own), own, compose) == Trust.of(["my.Loss"], True)
    plain = [*SHORT_RUN, "experiment=simcse_unsup", "callbacks=rank_monitor"]
    assert job_trust(compose(plain), plain, compose) == NOTHING
    given = ["trust=[a.B]", "init_from=runs/x"]
    assert job_trust(compose(given), given, compose) == Trust.of(["a.B"], False)
    stages = [
        "+stages.one.experiment=stage2",
        "+stages.one.loss._target_=my.Inner",
        "+callbacks.mine._target_=my.Callback",
    ]
    assert job_trust(compose(stages), stages, compose) == Trust.of(["my.Inner", "my.Callback"], False)
    # Consent is no part of what a run is.
    assert job_folder(compose(["seed=3"])) == job_folder(compose(["seed=3", "trust=[a.B]"]))


def test_a_cut_job_is_resumed_with_its_consent(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import pathlib, sys\npathlib.Path('told').write_text(' '.join(sys.argv[1:]))\n")
    script.write_text(script.read_text().replace("'told'", repr(str(tmp_path / "told"))))
    folder = tmp_path / "job"
    (folder / "checkpoints").mkdir(parents=True)
    (folder / "checkpoints" / "last.ckpt").touch()
    job = Job(0, ("seed=1",), folder, script=str(script), trust=Trust.of(["my.Loss"], True))
    run_job(job, Resources({}))
    assert (tmp_path / "told").read_text() == f"resume={folder} trust=[my.Loss] trust_remote_code=true"


def test_a_table_hands_consent_on_to_rows_that_read_a_folder(tmp_path: Path) -> None:
    spec = TableSpec(
        title="Toy",
        needs=Requirements(hours=1),
        seeds=[1],
        columns=["dev"],
        rows={
            "own": RowSpec(["loss._target_=my.Loss"]),
            "next": RowSpec(["loss=cosent"], after="own"),
            "tested": RowSpec([], after="own", trains=False),
        },
    )
    table = Table(spec, tmp_path, CONF)
    (own,), (after,), (tested,) = (table.seed_runs(Cell(name)) for name in ("own", "next", "tested"))
    assert own.job(0).trust == after.job(0).trust == Trust.of(["my.Loss"], False)
    assert own.overrides == ("loss._target_=my.Loss", "seed=1")
    assert "trust=[my.Loss]" in after.overrides
    assert "trust=[my.Loss]" in tested.overrides


def test_resume_takes_no_other_settings(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"leave out seed=2\."):
        train_py(tmp_path / "out", f"resume={tmp_path}", "trust=[a]", "trust_remote_code=true", "seed=2")


@pytest.mark.parametrize(
    "more",
    [
        ["callbacks=[ema,rank_monitor]", "logger=default", "+trainer.extra.profiler=simple"],
        ["+model.adapter._target_=peft.LoraConfig", "+model.adapter.target_modules=[query]"],
    ],
)
def test_a_runs_own_folder_passes(more: list[str], config: Config, tmp_path: Path) -> None:
    """With callbacks, loggers, arguments of Lightning's Trainer and an adapter."""
    run = tmp_path / "run"
    train_in(
        run,
        config(*[text for text in SHORT[:-1] if "logger=default" not in more or text != "logger=csv"], *more),
    )
    for name in ("best", "last"):
        torch.load(run / "checkpoints" / f"{name}.ckpt", weights_only=True)
    (run / "metrics.json").unlink()
    train_py(tmp_path / "out", f"resume={run}")
    assert (run / "metrics.json").is_file()
