"""What a sender may change in the configuration of a run."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sts_lightning.testing.tiny_bert import tiny_bert
from tests.support import run_entries as entries

Values = dict[str, Any]


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


def model_folder(folder: Path, marker: Path) -> None:
    """A tiny BERT whose files bring code along."""
    encoder = tiny_bert()
    encoder.backbone.save_pretrained(folder)
    encoder.tokenizer.tokenizer.save_pretrained(folder)
    source = "from transformers import BertConfig, BertModel\n" + entries.PAYLOAD.format(marker=str(marker))
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
