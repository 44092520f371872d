"""A run folder from someone else runs no code: each door is tried through each reader of run folders."""

from __future__ import annotations

import json
import pickle
import shutil
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml

from sts_lightning.cli.main import main
from sts_lightning.errors import CheckpointError, ConfigError, UntrustedError
from sts_lightning.evaluation.compare import compare
from sts_lightning.export.export import export
from sts_lightning.reproduce.collect import collect
from sts_lightning.reproduce.plan import Cell, Table
from sts_lightning.reproduce.spec import Requirements, RowSpec, TableSpec
from sts_lightning.sweep.job import result
from sts_lightning.testing.tiny_bert import tiny_bert
from tests import shared_run
from tests.conftest import CONF
from tests.shared_run import ENTRIES, SHORT, Bomb, edit, train_py

Values = dict[str, Any]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("runs") / "finished"
    train_py(folder, *SHORT, "prompt=none")
    return folder


@pytest.fixture
def run(finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shared_run.no_suite(monkeypatch)
    return Path(shutil.copytree(finished, tmp_path / "run"))


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    return tmp_path / "marker"


@pytest.fixture
def payload(tmp_path: Path, marker: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The dotted name of a function; importing its module writes the marker."""
    module = f"payload_{uuid.uuid4().hex}"
    (tmp_path / f"{module}.py").write_text(shared_run.PAYLOAD.format(marker=str(marker)))
    monkeypatch.syspath_prepend(tmp_path)
    return f"{module}.run"


PLACES: dict[str, Callable[[Values, Values], object]] = {
    "model": lambda cfg, node: cfg["model"].update(node),
    "prompt": lambda cfg, node: cfg["prompt"].update(node),
    "prompt, deeper": lambda cfg, node: cfg["prompt"].update(adapter=node),
    "adapter": lambda cfg, node: cfg["model"].update(adapter=node),
    "list in the adapter": lambda cfg, node: cfg["model"].update(
        adapter={"_target_": "peft.LoraConfig", "target_modules": [["query", node]]}
    ),
    "adapter, deeper": lambda cfg, node: cfg["model"].update(
        adapter={"_target_": "peft.LoraConfig", "target_modules": ["query"], "eva_config": node}
    ),
    "model.config": lambda cfg, node: cfg["model"].update(config={"hidden_act": node}),
    "loss": lambda cfg, node: cfg["loss"].update(node),
    "term of a loss": lambda cfg, node: cfg.update(
        loss={"_target_": "sts_lightning.losses.mix.MixLoss", "terms": {"one": node}}
    ),
    "regularizer": lambda cfg, node: cfg.update(regularizer=node),
    "data": lambda cfg, node: cfg["data"].update(node),
    "logger": lambda cfg, node: cfg["logger"].update(mine=node),
    "callbacks": lambda cfg, node: cfg["callbacks"].update(mine=node),
    "trainer.extra": lambda cfg, node: cfg["trainer"].update(extra={"plugins": [node]}),
    "anywhere": lambda cfg, node: cfg.update(optim={"lr": node}),
}


@pytest.mark.parametrize("entry", list(ENTRIES))
@pytest.mark.parametrize("place", list(PLACES))
def test_a_class_of_the_senders(
    place: str, entry: str, run: Path, payload: str, marker: Path, tmp_path: Path
) -> None:
    edit(run / "config.yaml", lambda cfg: PLACES[place](cfg, {"_target_": payload}))
    with pytest.raises(UntrustedError, match=r"_target_: 'payload_\w+\.run'"):
        ENTRIES[entry](run, tmp_path / "out")
    assert not marker.exists()


def through_a_list(node: Values) -> Values:
    return {"_target_": "peft.LoraConfig", "target_modules": ["query", node]}


TRICKS: dict[str, Callable[[Path, Path], Values]] = {
    "torch.load": lambda marker, bomb: {"_target_": "torch.load", "f": str(bomb), "weights_only": False},
    "numpy.load": lambda marker, bomb: {"_target_": "numpy.load", "file": str(bomb), "allow_pickle": True},
    "a function of this project": lambda marker, bomb: through_a_list(
        {
            "_target_": "sts_lightning.files.write_atomic",
            "path": {"_target_": "pathlib.Path", "_args_": [str(marker)]},
            "content": "x",
        }
    ),
    "a module that ours imports": lambda marker, bomb: through_a_list(
        {"_target_": "sts_lightning.runs.folder.torch.load", "f": str(bomb), "weights_only": False}
    ),
    "a process through a module": lambda marker, bomb: through_a_list(
        {"_target_": "sts_lightning.sweep.job.subprocess.Popen", "args": ["touch", str(marker)]}
    ),
    "a class method of peft's": lambda marker, bomb: through_a_list(
        {"_target_": "peft.LoraConfig.from_pretrained", "pretrained_model_name_or_path": str(bomb.parent)}
    ),
    "a class at the wrong place": lambda marker, bomb: through_a_list(
        {"_target_": "sts_lightning.training.history.HistoryLogger", "save_dir": str(bomb.parent)}
    ),
}


@pytest.mark.parametrize("trick", list(TRICKS))
def test_names_that_reach_further_than_they_look(trick: str, run: Path, marker: Path, tmp_path: Path) -> None:
    bomb = tmp_path / "bomb.bin"
    bomb.write_bytes(pickle.dumps(Bomb(marker)))
    edit(run / "config.yaml", lambda cfg: cfg["model"].update(adapter=TRICKS[trick](marker, bomb)))
    with pytest.raises(UntrustedError, match="_target_"):
        ENTRIES["load"](run, tmp_path / "out")
    assert not marker.exists()


def set_at(key: str, value: object) -> Callable[[Values], None]:
    """Set a dotted key, with mappings made where there are none."""

    def change(cfg: Values) -> None:
        *parents, last = key.split(".")
        for parent in parents:
            if not isinstance(cfg.get(parent), dict):
                cfg[parent] = {}
            cfg = cfg[parent]
        cfg[last] = value

    return change


LORA = {"_target_": "peft.LoraConfig", "target_modules": ["query"]}
PROMPT = {"_target_": "peft.PromptTuningConfig", "num_virtual_tokens": 2, "prompt_tuning_init": "TEXT"}

SETTINGS: dict[str, tuple[str, object]] = {
    "model.adapter.megatron_config": ("model.adapter", {**LORA, "megatron_config": {"name": "x"}}),
    "model.adapter.megatron_core": ("model.adapter", {**LORA, "megatron_core": "megatron.core"}),
    "model.adapter.tokenizer_kwargs": (
        "model.adapter",
        {**PROMPT, "tokenizer_kwargs": {"subfolder": "x"}},
    ),
    "model.adapter.tokenizer_name_or_path": ("model.adapter", {**PROMPT, "tokenizer_name_or_path": "x"}),
    "model.adapter.adapters": ("model.adapter", {"_target_": "peft.XLoraConfig", "adapters": {"one": "x"}}),
    "model.adapter.shadow_model": (
        "model.adapter",
        {"_target_": "peft.ShadowConfig", "shadow_model": "org/x"},
    ),
    "model.adapter.corda_config": ("model.adapter", {**LORA, "corda_config": {"cache_file": "x.bin"}}),
    "model.config._attn_implementation": ("model.config._attn_implementation", "org/kernel"),
    "model.config.attn_implementation": ("model.config.attn_implementation", "org/kernel"),
    "model.config.experts_implementation": ("model.config.experts_implementation", "org/kernel"),
    "model.config.auto_map": ("model.config.auto_map", {"AutoModel": "org/repo--file.Class"}),
    "model.config.quantization_config": ("model.config.quantization_config", {"quant_method": "x"}),
    "trainer.extra.plugins": ("trainer.extra.plugins", ["x"]),
    "trainer.extra.strategy": ("trainer.extra.strategy", "x"),
    "trainer.extra.callbacks": ("trainer.extra.callbacks", "x"),
    "trainer.extra.default_root_dir": ("trainer.extra.default_root_dir", "/elsewhere"),
    "trainer.extra.model_registry": ("trainer.extra.model_registry", "org/x"),
    "logger.csv.save_dir": ("logger.csv.save_dir", "/elsewhere"),
    "logger.tb.name": (
        "logger.tb",
        {"_target_": "lightning.pytorch.loggers.TensorBoardLogger", "name": "../../x"},
    ),
    "logger.tb.version": (
        "logger.tb",
        {"_target_": "lightning.pytorch.loggers.TensorBoardLogger", "version": "/elsewhere"},
    ),
    "logger.wandb.dir": (
        "logger.wandb",
        {"_target_": "lightning.pytorch.loggers.WandbLogger", "dir": "/elsewhere"},
    ),
    "logger.wandb.settings": (
        "logger.wandb",
        {"_target_": "lightning.pytorch.loggers.WandbLogger", "settings": {"base_url": "https://x"}},
    ),
    "callbacks.ema.avg_fn": (
        "callbacks.ema",
        {"_target_": "lightning.pytorch.callbacks.EMAWeightAveraging", "avg_fn": "x"},
    ),
    "prompt.name": ("prompt.name", "org/other-model"),
    "prompt.trust_remote_code": ("prompt.trust_remote_code", True),
    "model.trust_remote_code": ("model.trust_remote_code", "please"),
    "data._partial_": ("data._partial_", True),
    "loss._args_": ("loss._args_", ["x"]),
    "model._recursive_": ("model._recursive_", False),
    "callbacks.x._convert_": ("callbacks.x._convert_", "object"),
    "data_root": ("data_root", "${oc.env:HOME}"),
    "model.layers": ("model.layers", "${oc.decode:'2'}"),
    "loss._target_": ("loss._target_", ["a", "list"]),
    "model._target_": ("model._target_", "x'; touch marker; '.y"),
}


@pytest.mark.parametrize("entry", ["load", "resume"])
@pytest.mark.parametrize("key", list(SETTINGS))
def test_a_setting_by_which_a_library_would_load_code(
    key: str, entry: str, run: Path, tmp_path: Path
) -> None:
    edit(run / "config.yaml", set_at(*SETTINGS[key]))
    with pytest.raises(UntrustedError) as caught:
        ENTRIES[entry](run, tmp_path / "out")
    assert f"\n  {key}: " in str(caught.value)


@pytest.mark.parametrize("value", [{"x": 1}, {"x": "y"}, True])
def test_what_megatron_core_names_is_not_imported(
    value: object, run: Path, marker: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """peft imports a module by that name, which any folder on the path may provide."""
    (tmp_path / "megatron" / "core").mkdir(parents=True)
    (tmp_path / "megatron" / "__init__.py").touch()
    source = shared_run.PAYLOAD.format(marker=str(marker)) + "class tensor_parallel: pass\n"
    (tmp_path / "megatron" / "core" / "__init__.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    for module in ("megatron", "megatron.core"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    edit(run / "config.yaml", set_at("model.adapter", {**LORA, "megatron_config": value}))
    with pytest.raises(UntrustedError, match=r"model\.adapter\.megatron_config"):
        ENTRIES["load"](run, tmp_path / "out")
    assert not marker.exists()


def model_folder(folder: Path, marker: Path) -> None:
    """A tiny BERT whose files bring code along."""
    encoder = tiny_bert()
    encoder.backbone.save_pretrained(folder)
    encoder.tokenizer.tokenizer.save_pretrained(folder)
    source = "from transformers import BertConfig, BertModel\n" + shared_run.PAYLOAD.format(
        marker=str(marker)
    )
    (folder / "modeling.py").write_text(
        source + "class Config(BertConfig): pass\nclass Model(BertModel): config_class = Config\n"
    )
    for name, auto_map in (
        ("config.json", {"AutoConfig": "modeling.Config", "AutoModel": "modeling.Model"}),
        ("tokenizer_config.json", {"AutoTokenizer": ["org/x--modeling.Tokenizer", None]}),
    ):
        values = json.loads((folder / name).read_text())
        (folder / name).write_text(json.dumps(values | {"auto_map": auto_map}))


def of_that_folder(folder: Path, **more: object) -> Callable[[Values], None]:
    def change(cfg: Values) -> None:
        target = "sts_lightning.models.SentenceEncoder.from_pretrained"
        cfg["model"] = {"_target_": target, "name": str(folder), "pooling": "mean", **more}

    return change


@pytest.mark.parametrize("entry", list(ENTRIES))
@pytest.mark.parametrize("group", ["model", "prompt"])
def test_code_that_comes_with_a_model(
    group: str, entry: str, run: Path, marker: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))
    model_folder(run / "model", marker)
    edit(run / "config.yaml", of_that_folder(run / "model"))
    edit(run / "config.yaml", set_at(f"{group}.trust_remote_code", True))
    with pytest.raises(UntrustedError, match=r"trust_remote_code=true \(train\.py, eval\.py\)"):
        ENTRIES[entry](run, tmp_path / "out")
    assert not marker.exists()


def test_consent_that_a_folder_gives_itself_counts_for_nothing(
    run: Path, payload: str, marker: Path, tmp_path: Path
) -> None:
    model_folder(run / "model", marker)
    edit(run / "config.yaml", of_that_folder(run / "model", trust_remote_code=True))
    edit(run / "config.yaml", lambda cfg: cfg.update(trust=[payload], trust_remote_code=True))
    edit(run / "config.yaml", lambda cfg: PLACES["loss"](cfg, {"_target_": payload}))
    for entry in ENTRIES.values():
        with pytest.raises(UntrustedError):
            entry(run, tmp_path / "out")
    assert not marker.exists()


def test_an_export_names_no_code_of_the_model_folder(run: Path, marker: Path, tmp_path: Path) -> None:
    """A template's folder is loaded with trust_remote_code, which would run it."""
    model_folder(run / "model", marker)
    edit(run / "config.yaml", of_that_folder(run / "model", trust_remote_code=False))
    edit(run / "config.yaml", set_at("prompt.template", "A {sentence} b"))
    for format_ in ("merged", "sentence-transformers"):
        export(run, tmp_path / format_, format_)  # type: ignore[arg-type]
    written = [path for path in tmp_path.glob("*/**/*.json") if run not in path.parents]
    assert {"config.json", "tokenizer_config.json", "modules.json"} <= {path.name for path in written}
    assert [path for path in written if "auto_map" in path.read_text()] == []
    assert not marker.exists()


def test_a_kernel_in_the_files_of_a_model(run: Path, marker: Path, tmp_path: Path) -> None:
    model_folder(run / "model", marker)
    path = run / "model" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"_attn_implementation": "org/kernel"}))
    edit(run / "config.yaml", of_that_folder(run / "model"))
    with pytest.raises(ConfigError, match="org/kernel"):
        ENTRIES["load"](run, tmp_path / "out")


@pytest.mark.parametrize("which", ["best", "last"])
def test_pickled_code_in_a_checkpoint(which: str, run: Path, marker: Path, tmp_path: Path) -> None:
    path = run / "checkpoints" / f"{which}.ckpt"
    torch.save(torch.load(path, weights_only=True) | {"epoch": Bomb(marker)}, path)
    entry = "resume" if which == "last" else "load"
    with pytest.raises(CheckpointError, match=rf"{which}\.ckpt is not a readable checkpoint"):
        ENTRIES[entry](run, tmp_path / "out")
    assert not marker.exists()


def test_lightning_is_told_to_read_weights_only(
    run: Path, marker: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even where the checkpoint changes after it has been checked."""
    path = run / "checkpoints" / "last.ckpt"
    good = path.read_bytes()
    torch.save(torch.load(path, weights_only=True) | {"epoch": Bomb(marker)}, path)
    bad = path.read_bytes()
    from lightning.pytorch import Trainer

    fit = Trainer.fit

    def swap(trainer: Trainer, *arguments: Any, **settings: Any) -> None:
        assert settings["weights_only"] is True
        path.write_bytes(bad)
        fit(trainer, *arguments, **settings)

    path.write_bytes(good)
    monkeypatch.setattr(Trainer, "fit", swap)
    with pytest.raises(pickle.UnpicklingError):
        ENTRIES["resume"](run, tmp_path / "out")
    assert not marker.exists()


STAGES: dict[str, Callable[[str], Callable[[Values], object]]] = {
    "a class in a later stage": lambda payload: (
        lambda stages: PLACES["loss"](stages["two"], {"_target_": payload})
    ),
    "a name that leads out": lambda payload: lambda stages: stages.update({"../two": stages.pop("two")}),
    "an absolute name": lambda payload: lambda stages: stages.update({"/two": stages.pop("two")}),
    "no configuration": lambda payload: lambda stages: stages.update(two="x"),
    "no stage": lambda payload: lambda stages: stages.clear(),
    "an interpolation": lambda payload: lambda stages: stages["two"].update(name="${oc.env:HOME}"),
}


@pytest.mark.parametrize("trick", list(STAGES))
def test_stages(trick: str, run: Path, payload: str, marker: Path, tmp_path: Path) -> None:
    stage = yaml.safe_load((run / "config.yaml").read_text())
    both = tmp_path / "both"
    both.mkdir()
    (both / "stages.yaml").write_text(yaml.safe_dump({"one": stage, "two": stage}))
    edit(both / "stages.yaml", lambda stages: STAGES[trick](payload)(stages) and None)
    with pytest.raises(CheckpointError, match=r"stages\.yaml"):
        train_py(tmp_path / "out", f"resume={both}")
    assert not marker.exists()
    assert [path.name for path in both.iterdir()] == ["stages.yaml"]


def test_a_sweep_reads_no_result_outside_its_folder(run: Path, tmp_path: Path) -> None:
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / "stages.yaml").write_text("one: {}\n../run: {}\n")
    with pytest.raises(CheckpointError, match=r"stages\.yaml: '\.\./run' is not the name of a stage"):
        result(tmp_path / "job")


def test_a_resumed_run_does_not_write_through_links(run: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine\n")
    (run / "train.log").unlink()
    (run / "train.log").symlink_to(victim)
    with pytest.raises(UntrustedError, match=r"train\.log links to"):
        ENTRIES["resume"](run, tmp_path / "out")
    assert victim.read_text() == "mine\n"


def pickled_predictions(run: Path, marker: Path) -> None:
    bomb = np.array([Bomb(marker)], dtype=object)
    np.savez(run / "predictions.npz", **{"STSB/cosine": bomb, "STSB/gold": bomb})


def test_compare_unpickles_nothing(run: Path, marker: Path) -> None:
    pickled_predictions(run, marker)
    with pytest.raises(CheckpointError, match=r"predictions\.npz is broken"):
        compare([run], [run])
    assert not marker.exists()


def test_reproduce_collects_numbers_only(run: Path, payload: str, marker: Path, tmp_path: Path) -> None:
    spec = TableSpec(
        title="Toy",
        needs=Requirements(hours=1),
        seeds=[1],
        columns=["dev"],
        rows={"one": RowSpec(["loss=cosent"])},
    )
    table = Table(spec, tmp_path / "table", CONF)
    (planned,) = table.seed_runs(Cell("one"))
    shutil.copytree(run, planned.folder)
    pickled_predictions(planned.folder, marker)
    edit(planned.folder / "config.yaml", lambda cfg: PLACES["loss"](cfg, {"_target_": payload}))
    metrics = json.loads((planned.folder / "metrics.json").read_text())
    metrics["test"] = {"tasks": {"STSB": {"spearman": 1.0}}, "average": 1.0}
    (planned.folder / "metrics.json").write_text(json.dumps(metrics))
    collected = collect(table, 10)
    assert [problem for problem in collected.problems if "predictions.npz" in problem]
    metrics["dev"] = {"_target_": payload}
    (planned.folder / "metrics.json").write_text(json.dumps(metrics))
    assert [problem for problem in collect(table, 10).problems if "metrics.json is broken" in problem]
    with pytest.raises(SystemExit, match=r"metrics\.json is broken"):
        main(["seeds", *[str(planned.folder)] * 2])
    assert not marker.exists()


def test_the_command_that_exports(
    run: Path, payload: str, marker: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    edit(run / "config.yaml", lambda cfg: PLACES["adapter"](cfg, {"_target_": payload}))
    with pytest.raises(SystemExit, match="--trust payload"):
        main(["export", str(run), str(tmp_path / "out")])
    assert not marker.exists()
