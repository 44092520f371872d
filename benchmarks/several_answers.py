"""Train MiniLM on questions with several answers, beside sentence-transformers and its ``no_duplicates``.

The file has the columns question and answer, a row for each pair. Printed is the gap: the mean cosine of a
question with its own answers less that with all others, which a model that has learnt the file makes large.
"""

from __future__ import annotations

import argparse
import csv
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from common import their_minilm
from datasets import Dataset
from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

import sts_lightning
from sts_lightning.losses.base import cosine_matrix

BATCH, STEPS, RATE = 24, 40, 5e-5


def gap(encode: Callable[[list[str]], Any], pairs: list[tuple[str, str]]) -> float:
    """Return the mean cosine with own answers less that with other questions' answers."""
    questions, answers = (sorted(set(column)) for column in zip(*pairs, strict=True))
    cosines = cosine_matrix(*(torch.as_tensor(encode(texts)) for texts in (questions, answers)))
    own = torch.zeros(cosines.shape, dtype=torch.bool)
    for question, answer in pairs:
        own[questions.index(question), answers.index(answer)] = True
    return float(cosines[own].mean() - cosines[~own].mean())


def ours(path: Path, dev: Path, seed: int, folder: Path) -> Callable[[list[str]], Any]:
    """Train as `train.py` does; the weights are those of the last step."""
    settings = {
        "data.columns": ["question", "answer"],
        "data.dev_path": dev,
        "data.scored_columns": ["question", "answer", "score"],
        "data.batch_size": BATCH,
        "trainer.max_steps": STEPS,
        "trainer.val_every": STEPS,
        "optim.lr": RATE,
        "optim.warmup": 0,
        "optim.weight_decay": 0,
        "evaluation.final": False,
        "precision": "32-true",
    }
    run = sts_lightning.train(
        loss="infonce", data="triplets_file", path=path, seed=seed, settings=settings, folder=folder
    )
    return sts_lightning.load(run.path).encode


def theirs(pairs: list[tuple[str, str]], seed: int, folder: Path) -> Callable[[list[str]], Any]:
    """Train with their trainer, loss and sampler."""
    model = their_minilm()
    arguments = SentenceTransformerTrainingArguments(
        output_dir=str(folder),
        max_steps=STEPS,
        per_device_train_batch_size=BATCH,
        learning_rate=RATE,
        batch_sampler="no_duplicates",
        seed=seed,
        save_strategy="no",
        report_to="none",
        use_cpu=True,
    )
    train = Dataset.from_list([{"anchor": question, "positive": answer} for question, answer in pairs])
    SentenceTransformerTrainer(
        model, arguments, train_dataset=train, loss=MultipleNegativesRankingLoss(model)
    ).train()
    return model.encode


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    options = parser.parse_args()
    with options.path.open(newline="", encoding="utf-8") as file:
        pairs = [(row["question"], row["answer"]) for row in csv.DictReader(file)]
    gaps: dict[str, list[float]] = {"untuned": [gap(their_minilm().encode, pairs)], "ours": [], "theirs": []}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with (folder / "dev.csv").open("w", newline="", encoding="utf-8") as file:
            others = pairs[len(pairs) // 2 :] + pairs[: len(pairs) // 2]
            rows = [(question, answer, 5) for question, answer in pairs]
            rows += [(pair[0], other[1], 0) for pair, other in zip(pairs, others, strict=True)]
            csv.writer(file).writerows([("question", "answer", "score"), *rows])
        for seed in options.seeds:
            gaps["ours"].append(gap(ours(options.path, folder / "dev.csv", seed, folder / f"{seed}"), pairs))
            gaps["theirs"].append(gap(theirs(pairs, seed, folder / f"theirs_{seed}"), pairs))
    for who, found in gaps.items():
        print(f"{who}: {sum(found) / len(found):.3f} ({', '.join(f'{value:.3f}' for value in found)})")


if __name__ == "__main__":
    main()
