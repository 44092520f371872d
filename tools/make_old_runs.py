"""Write tests/fixtures/runs_0.3.0/, run folders as release 0.3.0 left them.

Check out the release, and run this from the root of this repository with the release before the package here:
`git worktree add ../old 28264259`, `pip install --no-deps --target ../release ../old` and
`PYTHONPATH=../release python tools/make_old_runs.py`. It takes a minute.

Beside each run NAME there is NAME.json: vectors of sentences and a score, by the release's `load`.
"""

from __future__ import annotations

import csv
import json
import os
import platform
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch
from hydra import compose, initialize_config_dir
from lightning.pytorch.callbacks import Callback
from scipy.spatial.distance import cosine
from scipy.stats import spearmanr
from transformers import BertConfig, BertModel

import sts_lightning
from sts_lightning.config.folders import PACKAGED
from sts_lightning.config.schema import register_schemas
from sts_lightning.core.errors import InterruptedRunError
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.runs.folder import RunFolder
from sts_lightning.testing.tiny_bert import character_tokenizer
from sts_lightning.workflows.start import train_in

FOLDER = Path("tests/fixtures/runs_0.3.0")
"""Relative to the root of the repository, as the paths in the runs are."""

SENTENCES = [
    "The heron waits beside the pond.",
    "A bird stands by the water",
    "Seven lamps hang over the stairs!",
    "rain",
    'She said "not yet" and closed the long green door of the boat house behind her.',
]

SMALL = ["model.hidden_size=8", "model.layers=1"]
TOY = ["data=toy", "data.train_size=64", "data.dev_size=20", "data.test_size=20", "data.batch_size=16"]
SHORT = [
    "precision=32-true",
    "data_root=data",
    "trainer=cpu",
    "trainer.max_epochs=2",
    "trainer.log_every_n_steps=1",
    "optim.lr=3e-3",
    "optim.warmup=0",  # else the first step changes no weight
    "logger=csv",
]
BASE = f"model.name={FOLDER}/base"
LORA = "{_target_: peft.LoraConfig, task_type: FEATURE_EXTRACTION, r: 2, target_modules: all-linear}"

RUNS = {
    "bert": ["model=tiny_bert", *SMALL, *TOY, "trainer.keep_every=5"],
    "bert_template": ["model=bert_base", BASE, "prompt=promptbert", *TOY],
    "llama_lora": ["model=tiny_llama", "model.quantization=none", "prompt=eol", *SMALL, *TOY],
    "folder_lora": ["model=bert_base", BASE, f"+model.adapter={LORA}", *TOY],
    "pairs": [
        "model=tiny_bert",
        "model.projection=always",
        *SMALL,
        "data=pairs_file",
        f"path={FOLDER}/pairs.csv",
        "data.dev_fraction=0.25",
        "data.batch_size=8",
    ],
    "stages": [
        "experiment=pcc",
        "model=tiny_mistral",
        "model.quantization=none",
        *SMALL,
        *TOY,
        "+stages.stage1.data.kind=triplets",
        "trainer.val_every=null",
    ],
}
"""Settings of each run that ends."""

INTERRUPTED = ["model=tiny_bert", *SMALL, *TOY, *SHORT, "trainer.save_every=2", "name=interrupted"]


class StopAt(Callback):
    """Sends the signal of Ctrl-C in a step."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_train_batch_start(self, trainer: Any, *args: Any) -> None:
        """Send it."""
        if trainer.global_step + 1 == self.step:
            signal.raise_signal(signal.SIGINT)


def write_pairs(path: Path) -> None:
    """Write 40 invented pairs; the score is the number of parts, of five, that both sentences share."""
    parts = [
        ["A", "The", "One", "That"],
        ["gardener", "pilot", "painter", "goat"],
        ["watches", "paints", "forgets", "carries"],
        ["the lantern", "an old map", "the kettle", "a blue chair"],
        ["at noon", "in the barn", "near the bridge", "without a word"],
    ]
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["sentence1", "sentence2", "score"])
        draw = random.Random(1)
        for row in range(40):
            left = [draw.randrange(4) for _ in parts]
            right = [n if draw.random() < 0.5 else draw.randrange(4) for n in left]
            right[row % 5] = (left[row % 5] + 1) % 4  # no two equal sentences, whose cosine rounding decides
            texts = [
                " ".join(part[n] for part, n in zip(parts, chosen, strict=True)) for chosen in (left, right)
            ]
            rows.writerow([*texts, sum(a == b for a, b in zip(left, right, strict=True))])


def write_base(folder: Path) -> None:
    """Write a BERT whose random weights are so large that each vector depends on the whole sentence."""
    tokenizer = character_tokenizer()
    torch.manual_seed(1)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        initializer_range=1.0,
    )
    BertModel(config, add_pooling_layer=False).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def run_command(*arguments: str) -> None:
    """Run a command of the release."""
    subprocess.run([sys.executable, "-m", "sts_lightning.cli.main", *arguments], check=True)


def interrupt(run: Path) -> None:
    """Leave a run as Ctrl-C in its sixth step of eight does."""
    register_schemas()
    with initialize_config_dir(str(PACKAGED), version_base="1.3"):
        try:
            train_in(run, compose("train", INTERRUPTED), callbacks=[StopAt(6)])
        except InterruptedRunError as stopped:
            print(stopped)


def score_pairs(encoder: SentenceEncoder, path: Path) -> float:
    """Return Spearman times 100 of the cosines of the pairs of a file, by scipy alone."""
    with path.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    left, right = (encoder.encode([row[key] for row in rows]) for key in ("sentence1", "sentence2"))
    cosines = [1 - cosine(*pair) for pair in zip(left.astype(float), right.astype(float), strict=True)]
    gold = [int(row["score"]) for row in rows]
    return 100 * float(spearmanr(cosines, gold).statistic)


def tidy(folder: Path) -> None:
    """Remove what people look at, and what is of this machine alone."""
    for pattern in ("plots", "report.html", "*.log", ".lock"):
        for path in sorted(folder.rglob(pattern)):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    for path in folder.rglob("*"):
        if path.suffix in (".yaml", ".json"):
            text = path.read_text("utf-8").replace(f"{Path.cwd()}/", "")
            path.write_text(text.replace(platform.platform(), "Linux"), "utf-8")
    last = folder / "interrupted" / "checkpoints" / "last.ckpt"
    state = torch.load(last, weights_only=True)
    state["callbacks"] = moved(state["callbacks"])
    torch.save(state, last)


def moved(state: Any) -> Any:
    """Replace the working directory, in the paths of a state, by one that does not exist."""
    if isinstance(state, dict):
        return {moved(key): moved(value) for key, value in state.items()}
    return state.replace(str(Path.cwd()), "/earlier") if isinstance(state, str) else state


def main() -> None:
    """Write the folder."""
    os.environ |= {"CUDA_VISIBLE_DEVICES": "", "HF_HUB_OFFLINE": "1"}
    os.environ["STS_CONF"] = ""  # else conf/ of this checkout
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    write_pairs(FOLDER / "pairs.csv")
    write_base(FOLDER / "base")
    for name, settings in RUNS.items():
        run_command("train", *settings, *SHORT, f"hydra.run.dir={FOLDER / name}")
    interrupt(FOLDER / "interrupted")
    tested = ["data_root=data", f"test={FOLDER}/pairs.csv"]
    run_command("eval", f"ckpt={FOLDER}/bert", *tested, f"hydra.run.dir={FOLDER}/eval")
    run_command("eval", f"ckpt={FOLDER}/bert", "step=5", *tested, f"hydra.run.dir={FOLDER}/eval_step")
    for name in (*RUNS, "interrupted"):
        run = RunFolder(FOLDER / name)
        encoder, last = sts_lightning.load(run.path), run
        expected = {
            "sentences": SENTENCES,
            "vectors": [[round(float(value), 7) for value in row] for row in encoder.encode(SENTENCES)],
            "dev": last.metrics().score if last.finished else None,
            "pairs": score_pairs(encoder, FOLDER / "pairs.csv"),
        }
        (FOLDER / f"{name}.json").write_text(json.dumps(expected) + "\n")
    tidy(FOLDER)


if __name__ == "__main__":
    main()
