"""Assembly of a run's data, loss and module from its configuration."""

from __future__ import annotations

from collections.abc import Mapping, Set
from functools import partial
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig, OmegaConf

from sts_lightning.config.build import LOADING, build, items, name_setting, plain, shared_settings
from sts_lightning.config.identity import file_digests
from sts_lightning.core.text import check_range
from sts_lightning.data.data_set import DataSet
from sts_lightning.data.module import DataModule
from sts_lightning.losses.base import Loss
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.training.module import STSModule
from sts_lightning.training.optim import make_optimizer, make_schedule
from sts_lightning.training.trainer import StepCount

if TYPE_CHECKING:
    from sts_lightning.regularizers.base import Regularizer
    from sts_lightning.training.auxiliary.base import AuxiliaryModel


def make_data(cfg: DictConfig) -> DataModule:
    """Build the data of a configuration without interpolations; nothing is read yet.

    ``seed`` of a data set that holds dev pairs out (``dev_fraction``) draws these alone; the order of its
    batches follows the seed of the run. That of another is the seed of order and repetitions.

    Raises:
        ConfigError: A setting is out of range, or the configuration builds something other than data.
    """
    loading = {key: cfg.data[key] for key in LOADING if key in cfg.data}
    facts = shared_settings(cfg)
    if "seed" in loading:
        facts["seed"] = loading["seed"]
    if "dev_fraction" in cfg.data:
        loading["seed"] = cfg.seed
    parts = {}
    if isinstance(cfg.data.get("parts"), DictConfig):
        parts["parts"], sizes = _make_parts(cfg.data.parts, facts)
        if loading["batch_size"] is None:
            loading["batch_size"] = sizes
    data_set: DataSet = build("data", _without_loading(cfg.data), DataSet, facts, **parts)
    with name_setting("data", cfg.data):
        data = DataModule(data_set, **loading)
    data.digest_files = partial(file_digests, {"path": facts["path"], "data": plain(cfg.data)})
    return data


def _make_parts(nodes: DictConfig, facts: Mapping[str, Any]) -> tuple[dict[str, DataSet], dict[str, int]]:
    """Build the parts of joint data; return them and their batch sizes by name.

    Args:
        nodes: Their configurations. What the top level sets for all data, such as ``path``, a part may set
            for itself.
        facts: Settings that they share.
    """
    parts, sizes = {}, {}
    for name, node in items(nodes):
        shared = {key: value for key, value in facts.items() if key not in node or key in LOADING}
        if "dev_fraction" in node and "seed" in node:
            shared["seed"] = node.seed
        parts[name] = build(f"data.parts.{name}", _without_loading(node), DataSet, shared)
        sizes[name] = int(node.batch_size)
        with name_setting(f"data.parts.{name}", node):
            check_range("batch_size", sizes[name], 1, 2**20)
    return parts, sizes


def _without_loading(node: DictConfig) -> DictConfig:
    """Return the settings of a data set without those of the `DataModule`."""
    return OmegaConf.masked_copy(node, [key for key, _ in items(node) if key not in LOADING])


def make_loss(node: DictConfig, dimension: int, parts: Mapping[str, DataSet], path: str = "loss") -> Loss:
    """Build the loss of a configuration, with its head if it has one.

    Args:
        node: Configuration of the loss.
        dimension: D, the size of an embedding.
        parts: The data by part, whose highest labels heads may need.
        path: Key of the node, for messages.

    Raises:
        ConfigError: A setting is out of range, the loss cannot be computed on embeddings of this size, or
            the configuration builds something other than a loss.
    """
    further = {}
    if isinstance(nodes := node.get("parts"), DictConfig):  # losses by part of joint data
        further["parts"] = {
            name: make_loss(
                each, dimension, {name: parts[name]} if name in parts else parts, f"{path}.parts.{name}"
            )
            for name, each in items(nodes)
        }
    top_label = max(part.top_label for part in parts.values())
    loss: Loss = build(path, node, Loss, {"dimension": dimension, "top_label": top_label}, **further)
    return loss


def make_module(
    cfg: DictConfig,
    precision: str,
    encoder: SentenceEncoder,
    loss: Loss,
    regularizer: Regularizer | None,
    steps: StepCount,
    keep: Set[str] = frozenset(),
    auxiliary: AuxiliaryModel | None = None,
) -> STSModule:
    """Build the module of a run, with the optimiser and the schedule of its configuration.

    Args:
        cfg: Configuration of the run.
        precision: Precision of training, in Lightning's names.
        encoder: Encoder to train, frozen as configured.
        loss: Loss to train with.
        regularizer: Term added to the loss.
        steps: Length of the run.
        keep: Names of frozen weights that checkpoints hold nevertheless.
        auxiliary: What the loss reads besides the embeddings.
    """
    optim = cfg.optim
    optimizer = partial(
        make_optimizer,
        lr=optim.lr,
        weight_decay=optim.weight_decay,
        betas=tuple(optim.betas),
        eps=optim.eps,
        layer_decay=optim.layer_decay,
        decay_embeddings=optim.decay_embeddings,
        head_lr=optim.head_lr,
        fused=precision != "16-mixed",
    )
    schedule = partial(
        make_schedule,
        schedule=optim.schedule,
        warmup=optim.warmup,
        total_steps=steps.total_steps,
        stretch=optim.stretch,
    )
    return STSModule(
        encoder,
        loss,
        optimizer,
        schedule,
        optim.freeze,
        keep,
        regularizer,
        cfg.trainer.micro_batch_size,
        cfg.trainer.official_gather,
        auxiliary,
        cfg.seed,
    )
