"""Whether the parts of a run fit together; known before any weight is loaded."""

from __future__ import annotations

from lightning.pytorch.callbacks import Callback
from omegaconf import DictConfig

from sts_lightning.config.build import name_setting
from sts_lightning.data.module import SentenceDataModule
from sts_lightning.data.nli_triplets import NLITripletsData
from sts_lightning.data.pair_tables import SCORE_RANGE, values_of
from sts_lightning.errors import ConfigError
from sts_lightning.losses import all_losses
from sts_lightning.losses.base import LABEL_WORDS, Loss, accepts
from sts_lightning.losses.checks import check_declared
from sts_lightning.losses.vector_distillation import VectorDistillationLoss
from sts_lightning.models.backbone_module import prefix_left_out
from sts_lightning.models.freezing import check_freeze, trains
from sts_lightning.models.template import check_template
from sts_lightning.regularizers.base import Regularizer
from sts_lightning.training.companion import Companion
from sts_lightning.training.queue import check_queue
from sts_lightning.training.rank_monitor import RankMonitor
from sts_lightning.training.teacher_vectors import TeacherVectors
from sts_lightning.workflows.callback_checks import check_callback


def check_fit(loss: Loss, data: SentenceDataModule) -> None:
    """Reject a loss that cannot use the data.

    Raises:
        ConfigError: Views or labels do not fit; the message lists the losses that do. Or the batches are too
            small, the data is something else altogether, or the loss does not declare what it accepts.
    """
    check_declared(loss)
    if fits(loss, data):
        if data.batch_size < loss.least_batch:
            raise ConfigError(
                f"{type(loss).__name__} compares nothing in a batch of {data.batch_size}; with these "
                f"settings data.batch_size must be at least {loss.least_batch}.",
                key="data.batch_size",
            )
        return
    have = f"{data.num_views} views and {LABEL_WORDS[data.label]}"
    others = [stem for stem, other in all_losses().items() if fits(other, data)]
    raise ConfigError(
        f"{type(loss).__name__} needs {loss.needs()}, but {type(data).__name__} gives {have}. "
        f"Losses that fit this data: {', '.join(others) or 'none'}.",
        key="loss",
        hint=_other_data(loss, data),
    )


def _other_data(loss: Loss, data: SentenceDataModule) -> str | None:
    """Return how to read pairs with a score as positives, positives with a score, or triplets as pairs."""
    positives = getattr(data, "positives_from", None)
    if "score" in loss.labels and data.label == "none" and accepts(loss, 2):
        if positives is not None:
            return "It reads all pairs with their scores without data.positives_from."
        return "Pairs with a score are read by data=pairs_file."
    if "none" in loss.labels and data.label == "score" and accepts(loss, 2):
        triplets = "data=triplets_file reads pairs and triplets without a score."
        if not hasattr(data, "positives_from"):
            return triplets
        low, high = getattr(data, "score_range", None) or SCORE_RANGE
        similar = low + 0.8 * (high - low)
        return f"To train it on the similar pairs alone: data.positives_from={similar:g}; {triplets}"
    if "none" in loss.labels and accepts(loss, 2) and isinstance(data, NLITripletsData) and data.path:
        return f"Without hard negatives: 'data.columns=[{','.join(data.columns[:2])}]'."
    return None


def compares_scores(loss: Loss, data: SentenceDataModule) -> bool:
    """Return whether a loss compares the scores of pairs, so that equal ones give no gradient."""
    return data.label == "score" and loss.compares


def check_scores(name: str, data: SentenceDataModule) -> None:
    """Reject training scores that are all equal, for a loss that compares them.

    Args:
        name: Name of the loss.
        data: Data that has been read.

    Raises:
        ConfigError: All scores are equal.
    """
    labels = values_of(data.train, "label")
    if min(labels) < max(labels):
        return
    alone = [
        stem
        for stem, other in all_losses().items()
        if fits(other, data) and other.least_batch == 1 and not other.requires
    ]
    raise ConfigError(
        f"{name} compares scores, but all {len(labels):,} training pairs have the score "
        f"{data.own_score(labels[0]):g}.",
        key="loss",
        hint=f"Losses that do not compare them: {', '.join(alone)}.",
    )


def check_regularizer(regularizer: Regularizer | None, data: SentenceDataModule) -> None:
    """Reject a regularizer that reads more views than the data has.

    Raises:
        ConfigError: It does.
    """
    if regularizer is not None and data.num_views < regularizer.least_views:
        raise ConfigError(
            f"regularizer: {type(regularizer).__name__} reads {regularizer.least_views} views with these "
            f"settings, and {type(data).__name__} gives {data.num_views}.",
            key="regularizer",
        )


def check_views(prompt: DictConfig, data: SentenceDataModule) -> None:
    """Reject templates without a slot, not one for each view, or that the data would tear.

    Raises:
        ConfigError: One of them.
    """
    for key, text in (
        ("template", prompt.template),
        *(("view_templates", t) for t in prompt.view_templates or []),
    ):
        if text is not None:
            check_template(text, f"prompt.{key}")
    if prompt.template is not None and any(view.augmentation is not None for view in data.views):
        raise ConfigError(
            "data.repetition would repeat words of the template; use prompt=none.", key="data.repetition"
        )
    templates = prompt.view_templates
    if templates is not None and len(templates) != data.num_views:
        raise ConfigError(
            f"prompt.view_templates has {len(templates)} templates, but {type(data).__name__} gives "
            f"{data.num_views} views.",
            key="prompt.view_templates",
        )


def check_extras(
    cfg: DictConfig, loss: Loss, regularizer: Regularizer | None, callbacks: list[Callback]
) -> None:
    """Reject a start, a queue, a regularizer, a file or a frozen encoder that would have no effect.

    Raises:
        ConfigError: One of them.
    """
    for name, callback in zip(cfg.callbacks, callbacks, strict=True):
        check_callback(str(name), callback)
    if cfg.model.get("adapter") is None and trains(cfg.freeze):
        for key, usual in (("dtype", "float32"), ("quantization", "none")):
            if cfg.model.get(key, usual) != usual:
                raise ConfigError(
                    f"model.{key}={cfg.model[key]}: weights that train have to be float32; give the model an "
                    f"adapter (model.adapter, as in conf/model/mistral7b.yaml), or set model.{key}={usual}.",
                    key=f"model.{key}",
                )
    kind = str((cfg.model.get("adapter") or {}).get("_target_"))
    if cfg.trainer.gradient_checkpointing and kind.endswith(".PrefixTuningConfig"):
        raise prefix_left_out()
    if cfg.init != "best" and cfg.init_from is None:
        raise ConfigError(f"init={cfg.init} needs the run to start from: init_from=<run folder>.", key="init")
    with name_setting("queue", cfg.queue):
        check_queue(cfg.queue.size, cfg.queue.momentum)
    of_queue = {"momentum": 0.995, "official": False}
    for key, value in of_queue.items() if not cfg.queue.size else ():
        if cfg.queue[key] != value:
            raise ConfigError(
                f"queue.{key}={cfg.queue[key]} has no effect without a queue.",
                key=f"queue.{key}",
                hint=f"Set queue.size, or leave queue.{key} out.",
            )
    if cfg.queue.size and "negatives" not in loss.takes:
        able = ", ".join(stem for stem, other in all_losses().items() if "negatives" in other.takes)
        raise ConfigError(
            f"queue.size={cfg.queue.size}: {type(loss).__name__} takes no further negatives. "
            f"Losses that do: {able}.",
            key="queue.size",
        )
    watched = any(isinstance(callback, RankMonitor) for callback in callbacks)
    if regularizer is not None and regularizer.needs_phases and not watched:
        raise ConfigError(
            "regularizer.phase1 and phase2 differ, so the switch has to be found: "
            "add callbacks=rank_monitor.",
            key="regularizer",
        )
    if cfg.evaluation.rank and not cfg.evaluation.final:
        raise ConfigError(
            "evaluation.rank=true has no effect with evaluation.final=false, which leaves the test sets out.",
            key="evaluation.rank",
        )
    _check_data_settings(cfg)
    has_head = any(True for _ in loss.parameters())
    check_freeze(cfg.freeze, type(loss).__name__, has_head, regularizer is not None)
    if cfg.optim.head_lr is not None and not has_head:
        raise ConfigError(
            f"optim.head_lr has no effect: {type(loss).__name__} has no head.", key="optim.head_lr"
        )


def _check_data_settings(cfg: DictConfig) -> None:
    """Reject settings of files and dev pairs that the data does not read."""
    if cfg.path is not None and cfg.data.get("path") != cfg.path:
        raise ConfigError(
            f"path={cfg.path} has no effect on this data.",
            key="path",
            hint="Add data=pairs_file, triplets_file, classes_file, sentences_file or pairs_hub.",
        )
    dev = cfg.get("dev", "stsb")
    if dev != "stsb" and cfg.data.get("dev") != dev:
        raise ConfigError(f"dev={dev} has no effect on this data, which has dev pairs of its own.", key="dev")


def check_companion(cfg: DictConfig, loss: Loss, companion: Companion | None) -> None:
    """Reject a companion that the loss has no use for, or a loss that lacks one.

    Raises:
        ConfigError: One of the two.
    """
    name = type(loss).__name__
    if companion is not None and companion.provides not in loss.takes:
        able = ", ".join(stem for stem, other in all_losses().items() if companion.provides in other.takes)
        raise ConfigError(
            f"companion: {name} has no use for what {type(companion).__name__} provides "
            f"({companion.provides}); {able or 'no loss'} does.",
            key="companion",
        )
    given = {companion.provides} if companion is not None else set()
    if cfg.queue.size:
        given.add("negatives")
    for argument in loss.requires:
        if argument not in given:
            raise ConfigError(
                f"{name} needs a companion that provides {argument}.",
                key="companion",
                hint=f"Add companion={argument}, or an experiment that has it.",
            )


def check_teacher_size(loss: Loss, companion: Companion | None, dimension: int) -> None:
    """Reject a loss that expects vectors of another size than the teachers have, once these are loaded.

    Args:
        loss: The loss, or one around others.
        companion: What it reads.
        dimension: Size of an embedding.

    Raises:
        ConfigError: The sizes differ.
    """
    if not isinstance(companion, TeacherVectors):
        return
    given = companion.dimension
    for part in loss.modules():
        if isinstance(part, VectorDistillationLoss) and (part.size or dimension) != given:
            raise ConfigError(
                f"the teachers' vectors have {given} values together, but the loss compares vectors of "
                f"{part.size or dimension}.",
                key="loss.teacher_dimension",
                hint=f"Set teacher_dimension={given} for VectorDistillationLoss.",
            )


def check_wise_ft(cfg: DictConfig) -> None:
    """Reject an average with the start that is no average, or has no weights to average.

    Raises:
        ConfigError: One of the two.
    """
    key, shares = "trainer.wise_ft", cfg.trainer.wise_ft
    for share in shares:
        if not 0 <= share <= 1:
            raise ConfigError(f"{key}: a share must be from 0 to 1, got {share}.", key=key)
    if shares and cfg.model.get("adapter") is not None:
        raise ConfigError(
            f"{key} averages weights, but model.adapter trains factors of them, and the mean of "
            "factors is not that of their products.",
            key=key,
        )
    if shares and not trains(cfg.freeze):
        raise ConfigError(f"{key} has no effect with freeze={cfg.freeze}, which keeps the start.", key=key)


def fits(loss: Loss | type[Loss], data: SentenceDataModule) -> bool:
    """Return whether a loss can use the views and the label of the data."""
    return accepts(loss, data.num_views) and data.label in loss.labels
