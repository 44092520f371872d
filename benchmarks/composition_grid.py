"""The rows, columns and models of the grid of compositions, as settings; `compositions.py` runs it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sts_lightning.losses import all_losses

BASE = (
    "name=cell",
    "data=toy",
    "data.train_size=50",
    "data.dev_size=20",
    "data.test_size=20",
    "data.batch_size=10",
    "trainer.max_epochs=1",
    "trainer.val_every=5",
    "trainer.chunk_tokens=512",
    "precision=32-true",
    "trainer=cpu",
    "logger=csv",
    "optim.lr=1e-3",
    "optim.warmup=0",
    "optim.eps=1e-3",  # else the first steps divide rounding errors by rounding errors
)
"""Five steps of ten examples."""

MODELS = {
    "BERT": ("model=tiny_bert", "model.dropout=0", "model.projection=train"),
    "dropout": ("model=tiny_bert", "model.dropout=0.2", "model.projection=train", "trainer.dropout=example"),
    "NF4": (
        "model=decoder",
        "model.name={folder}/mistral",
        "model.dtype=float32",
        "model.adapter.r=4",
        "model.adapter.lora_dropout=0",
        "trainer.chunk_tokens=8192",  # each chunk dequantises the weights
    ),
}
"""Models, each with a reference of its own: one process, whole batch."""

START = (
    "loss=infonce",
    "data.kind=triplets",
    "data.train_size=1000",
    "data.batch_size=16",
    "optim.lr=5e-3",
    "trainer.max_steps=30",
    "trainer.val_every=30",
    "evaluation.final=false",
)
"""Settings of the run that the cells of a model start from."""

SHAPE: dict[str, Any] = {
    "vocab_size": 259,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
}
"""Shape of the Mistral with random weights."""


@dataclass(frozen=True)
class Composition:
    """A way to divide a batch, or the weights.

    Attributes:
        name: Title of its column.
        model: Key of `MODELS`.
        overrides: Settings in addition to those of the reference.
        processes: Number of processes on each node.
        nodes: Number of nodes.
    """

    name: str
    model: str
    overrides: tuple[str, ...] = ()
    processes: int = 1
    nodes: int = 1

    @property
    def settings(self) -> tuple[str, ...]:
        """Overrides of the configuration, the number of processes included."""
        if self.processes * self.nodes == 1:
            return self.overrides
        return (*self.overrides, f"trainer.devices={self.processes}", f"trainer.num_nodes={self.nodes}")


MICRO, CHECKPOINTS = "trainer.micro_batch_size=2", "trainer.gradient_checkpointing=true"
CHUNKS, FSDP = "trainer.chunk_tokens=40", "trainer.strategy=fsdp"

COMPOSITIONS = (
    Composition("micro batches", "BERT", (MICRO,)),
    Composition("chunks, checkpointing", "BERT", (CHUNKS, CHECKPOINTS)),
    Composition("DDP, 2", "BERT", (), 2),
    Composition("DDP, 3, micro batches", "BERT", ("trainer.micro_batch_size=5",), 3),
    Composition("DDP, 2 nodes", "BERT", (CHUNKS,), 1, 2),
    Composition("FSDP, 2", "BERT", (FSDP,), 2),
    Composition("FSDP, 3, chunks, micro batches", "BERT", (FSDP, CHUNKS, MICRO), 3),
    Composition("FSDP, 2 nodes, checkpointing", "BERT", (FSDP, CHECKPOINTS), 1, 2),
    Composition("DDP, 2, micro batches", "dropout", (MICRO,), 2),
    Composition("FSDP, 2, chunks, checkpointing", "dropout", (FSDP, CHUNKS, CHECKPOINTS), 2),
    Composition("DDP, 2", "NF4", (), 2),
    Composition("FSDP, 2, micro batches, checkpointing", "NF4", (FSDP, MICRO, CHECKPOINTS), 2),
)

OF_LOSS = {
    "contrastive_tension": ("companion=twin", "data.views=1", "loss.group=5"),
    "divided": ("loss.inner={_target_: sts_lightning.losses.pearson.PearsonLoss}", "loss.parts=2"),
    "infocse": (
        "companion=masked_lm",
        "companion.lower_layers=1",
        "companion.layers=1",
        "model.pooling=cls",
        "loss.auxiliary_weight=1",  # else the second term would not show
        "loss.temperature=1",  # lower, the gradient vanishes but for rounding
    ),
    "kendall": ("loss.temperature=1",),  # steeper, it multiplies the rounding errors of nearly equal cosines
    "matryoshka": (
        "loss.inner={_target_: sts_lightning.losses.cosine_mse.CosineMSELoss}",
        "loss.dimensions=[8,16]",
    ),
    "mix": (
        "loss.terms={r: {_target_: sts_lightning.losses.pearson.PearsonLoss}, "
        "c: {_target_: sts_lightning.losses.cosent.CoSENTLoss}}",
        "loss.weights={r: 1.0, c: 0.5}",
    ),
    "rank_margin": ("loss.gap=2",),
    "rankcse": ("companion=teacher", "companion.sources=[{teacher}]"),
    "score_distillation": ("data.kind=pairs",),  # a sentence and itself have nothing to learn
    "vector_distillation": ("loss.teacher_dimension=16",),
}
"""Settings that a loss cannot do without, or that suit ten examples."""

TEACHERS = {"teacher": "teacher", "teacher_vectors": "teacher_vectors"}
"""Companion by the argument of a loss that it supplies."""

VARIANTS = {
    "infonce, queue": ("infonce", ("data.kind=sentences", "queue.size=12")),
    "pearson, rank reduction": ("pearson", ("regularizer=rank_reduction", "regularizer.coefficient=0.5")),
}
"""Rows besides those of the losses: a loss with another part of the training."""


def rows(teacher: Path) -> dict[str, tuple[str, ...]]:
    """Return the settings of each row by its name: every loss, and the variants.

    Args:
        teacher: Folder of stored vectors.
    """
    found = {stem: _settings(stem, teacher) for stem in sorted(all_losses())}
    return found | {name: (*found[stem], *extra) for name, (stem, extra) in VARIANTS.items()}


def _settings(stem: str, teacher: Path) -> tuple[str, ...]:
    loss = all_losses()[stem]
    labels = loss.labels or ("score",)  # a loss around others has theirs
    kind = {"score": "pairs", "class": "classes"}.get(
        labels[0], "triplets" if 3 in loss.views else "sentences"
    )
    own = (text.replace("{teacher}", str(teacher)) for text in OF_LOSS.get(stem, ()))
    settings = [f"loss={stem}", f"data.kind={kind}", *own]
    for argument in loss.requires:
        if argument in TEACHERS:
            settings += [f"companion={TEACHERS[argument]}", f"companion.sources=[{teacher}]"]
    return tuple(settings)
