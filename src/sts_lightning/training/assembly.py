"""Assembly of what a configuration names: one function for training, checks and plans."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.loggers import Logger
from omegaconf import DictConfig, OmegaConf

from sts_lightning.config.build import LOADING, build, items, name_setting, to_container, top_level_settings
from sts_lightning.config.identity import file_digests
from sts_lightning.core.errors import at_setting, check_range
from sts_lightning.core.hardware import Machine, trained_model
from sts_lightning.data.data_set import DataSet
from sts_lightning.data.module import DataModule
from sts_lightning.losses.base import Loss
from sts_lightning.models.encoder import SentenceEncoder, freeze
from sts_lightning.models.loading.backbone import load_backbone
from sts_lightning.models.loading.folder import check_writable, load_weights, refers_to_base, step_of
from sts_lightning.models.loading.meta import load_meta
from sts_lightning.models.loading.run import build_encoder, model_folder, set_evaluation_text
from sts_lightning.runs.folder import RunFolder, Which
from sts_lightning.training.module import STSModule
from sts_lightning.training.optim import make_optimizer, make_schedule
from sts_lightning.training.trainer import StepCount

if TYPE_CHECKING:
    from sts_lightning.regularizers.base import Regularizer
    from sts_lightning.training.auxiliary.base import AuxiliaryModel

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Components:
    """What a configuration names.

    Attributes:
        cfg: The configuration.
        data: The data, which need not be read.
        encoder: The encoder, frozen as configured.
        loss: The loss, with its head.
        regularizer: A term that is added to the loss.
        auxiliary: A part that supplies the loss with an argument.
        callbacks: Callbacks besides those that every run has.
        kept: Names of frozen weights of the encoder that come from an earlier run, and that checkpoints hold
            therefore.
    """

    cfg: DictConfig
    data: DataModule
    encoder: SentenceEncoder
    loss: Loss
    regularizer: Regularizer | None
    auxiliary: AuxiliaryModel | None
    callbacks: Sequence[Callback]
    kept: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Experiment:
    """A run that is ready to train: data read, weights loaded, nothing written yet.

    Attributes:
        run: The run folder.
        cfg: The configuration as composed or stored.
        machine: The hardware, and the settings that depend on it.
        data: The data.
        module: Encoder, loss and optimiser.
        steps: Steps of the run.
        trainer: Lightning's Trainer.
        loggers: Destinations of metrics.
        callbacks: Callbacks of the configuration, then others besides those that every run has.
        made: Steps of the last checkpoint, from which the run resumes; None: it begins.
        first: Whether this is the process of the run that writes the folder.
    """

    run: RunFolder
    cfg: DictConfig
    machine: Machine
    data: DataModule
    module: STSModule
    steps: StepCount
    trainer: pl.Trainer
    loggers: Sequence[Logger]
    callbacks: Sequence[Callback]
    made: int | None
    first: bool

    @property
    def resumed(self) -> bool:
        """Whether the run resumes from its last checkpoint."""
        return self.made is not None


def assemble(
    cfg: DictConfig, device: str, precision: str = "32-true", data: DataModule | None = None
) -> Components:
    """Build what a configuration names; no data is read, and nothing is written.

    Args:
        cfg: What `check_config` has returned.
        device: Device that weights are loaded to. On ``meta`` the weights of the encoder have
            shapes and no values, nothing is read of a model but its configuration and its tokenizer, the
            weights of an earlier run are not loaded, and auxiliary models not connected. A model that a
            function of its own builds has values there too.
        precision: Precision of training, in Lightning's names.
        data: Data that has been read already; None: built here.

    Raises:
        UserError: A setting is out of range, or the model or the earlier run cannot be loaded.
    """
    on_meta = device == "meta"
    data = make_data(cfg) if data is None else data
    model = trained_model(cfg, precision)
    # Of the run itself the model draws first, then a head; checks draw nothing.
    with torch.random.fork_rng(devices=[], enabled=on_meta):
        if on_meta:
            encoder = build_encoder(model, cfg.prompt, "cpu", load_meta)
        else:
            encoder = build_encoder(model, cfg.prompt, device, load_backbone)
        loss = make_loss(cfg.loss, encoder.dimension, data.parts)
    kept: frozenset[str] = frozenset()
    if cfg.init_from is not None and not on_meta:  # the loss has a head that this may fill
        with at_setting("init_from"):
            kept = warm_start(cfg, encoder, loss)
    freeze(encoder, cfg.optim.freeze)
    set_evaluation_text(encoder, cfg.evaluation.text_edit, cfg.evaluation.max_length)
    check_writable(encoder)
    regularizer = auxiliary = None
    if cfg.regularizer:
        from sts_lightning.regularizers.base import Regularizer  # few runs have one

        regularizer = build("regularizer", cfg.regularizer, Regularizer)
    if cfg.auxiliary:
        from sts_lightning.training.auxiliary.base import AuxiliaryModel  # few runs have one

        auxiliary = build("auxiliary", cfg.auxiliary, AuxiliaryModel)
        if not on_meta:  # it may copy the encoder, which by now is as it starts to train
            with name_setting("auxiliary", cfg.auxiliary):
                auxiliary.connect(encoder)
    if cfg.trainer.gradient_checkpointing:  # not of a copy, which has no backward pass
        encoder.checkpoint_layers()
    callbacks = [build(f"callbacks.{key}", node, Callback) for key, node in cfg.callbacks.items()]
    return Components(cfg, data, encoder, loss, regularizer, auxiliary, callbacks, kept)


def make_data(cfg: DictConfig) -> DataModule:
    """Build the data of a configuration without interpolations; nothing is read yet.

    ``seed`` of a data set that holds dev pairs out (``dev_fraction``) draws these alone; the order of its
    batches follows the seed of the run. That of another is the seed of order and repetitions.

    Raises:
        ConfigError: A setting is out of range, or the configuration builds something other than data.
    """
    loading = {key: cfg.data[key] for key in LOADING if key in cfg.data}
    facts = top_level_settings(cfg)
    if "seed" in loading:
        facts["seed"] = loading["seed"]
    if "dev_fraction" in cfg.data:
        loading["seed"] = cfg.seed
    parts = {}
    if isinstance(cfg.data.get("parts"), DictConfig):
        parts["parts"], sizes = _make_parts(cfg.data.parts, facts)
        if loading["batch_size"] is None:
            loading["batch_size"] = sizes
        masks = {name: bool(node.get("mask_repeats", True)) for name, node in items(cfg.data.parts)}
        loading.setdefault("mask_repeats", masks)
    data_set: DataSet = build("data", _without_loading(cfg.data), DataSet, facts, **parts)
    with name_setting("data", cfg.data):
        data = DataModule(data_set, **loading)
    data.digest_files = partial(file_digests, {"path": facts["path"], "data": to_container(cfg.data)})
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


def warm_start(cfg: DictConfig, encoder: SentenceEncoder, loss: Loss) -> frozenset[str]:
    """Load the weights of an earlier run: those of the encoder, and of a loss head of the same shape.

    Args:
        cfg: Configuration of the new run; ``init_from`` is the folder of the earlier one, which must have the
            same model.
        encoder: The encoder to load the weights into.
        loss: The loss; its head is loaded only if it has the shape of the earlier run's head.

    Returns:
        Names of the encoder's weights that were loaded.

    Raises:
        CheckpointError: The folder is no finished run, has another model, or its files are broken.
    """
    run = RunFolder(cfg.init_from)
    which: Which = "best" if cfg.trainer.init == "best" else "final"
    folder = model_folder(run, which)
    head = load_weights(encoder, folder)
    own = {name: value.shape for name, value in loss.state_dict().items()}
    same_head = bool(head) and {name: value.shape for name, value in head.items()} == own
    if same_head:
        loss.load_state_dict(head)
    # Those of a base that is not trained are in its own files.
    whole = not refers_to_base(encoder)
    names = {name for name, weight in encoder.named_parameters() if weight.requires_grad or whole}
    log.info(
        "starting from %s: %s (%s%s): %d weights of the encoder, %s",
        run.settings().get("name"),
        run.name,
        cfg.trainer.init,
        "" if (step := step_of(folder)) is None else f", step {step}",
        len(names),
        "and the head" if same_head else "no head",
    )
    return frozenset(f"encoder.{name}" for name in names)


def make_module(components: Components, precision: str, steps: StepCount) -> STSModule:
    """Build the module of a run, with the optimiser and the schedule of its configuration.

    Args:
        components: What the configuration names.
        precision: Precision of training, in Lightning's names.
        steps: Length of the run.
    """
    cfg, optim = components.cfg, to_container(components.cfg.optim)
    frozen = optim.pop("freeze")
    course = {name: optim.pop(name) for name in ("schedule", "warmup", "stretch")}
    return STSModule(
        components.encoder,
        components.loss,
        partial(make_optimizer, fused=precision != "16-mixed", **optim),
        partial(make_schedule, total_steps=steps.total_steps, **course),
        frozen=frozen,
        extra_saved=components.kept,
        regularizer=components.regularizer,
        micro_batch_size=cfg.trainer.micro_batch_size,
        auxiliary=components.auxiliary,
        seed=cfg.seed,
    )
