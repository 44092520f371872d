"""What the papers' forks of SimCSE's code have in common."""

from __future__ import annotations

import copy
import types
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase
from transformers.modeling_outputs import SequenceClassifierOutput

from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.training.optim import make_optimizer
from tests.nightly.differential.compare import EPSILON, LEARNING_RATE, ROUNDING, five_updates, right_padded
from tests.nightly.differential.papers_code import OldEncoder, definitions


class Settings(types.SimpleNamespace):
    """Settings of a fork; those that are not given are off."""

    def __getattr__(self, name: str) -> bool:
        return False


class Fork(nn.Module):
    """A BERT with the head of a fork, and its `cl_forward`.

    Args:
        encoder: Encoder with a projection, whose weights are copied.
        repository: Folder of the clone.
        path: File of its models.
        names: Classes and functions of the file that it needs besides those of all forks.
        settings: Its settings.
    """

    def __init__(
        self, encoder: SentenceEncoder, repository: str, path: str, *names: str, **settings: Any
    ) -> None:
        super().__init__()
        self.scope = definitions(
            repository,
            path,
            *("MLPLayer", "Similarity", *names, "cl_forward"),
            SequenceClassifierOutput=SequenceClassifierOutput,
        )
        self.backbone = OldEncoder(copy.deepcopy(encoder.backbone))
        self.mlp = self.scope["MLPLayer"](encoder.backbone.config)
        self.mlp.dense.load_state_dict(encoder.projector[0].state_dict())
        self.sim = self.scope["Similarity"](temp=0.05)
        if "Pooler" in names:
            self.pooler_type, self.pooler = "cls", self.scope["Pooler"]("cls")
        self.model_args: Any = Settings(temp=0.05, pooler_type="cls", hard_negative_weight=0, **settings)
        self.device = torch.device("cpu")

    def forward(self, input_ids: Tensor, attention_mask: Tensor, **given: Any) -> Any:
        """Output of their `cl_forward` for blocks (B, V, L)."""
        blocks = {"input_ids": input_ids, "attention_mask": attention_mask}
        return self.scope["cl_forward"](self, self.backbone, return_dict=True, **blocks, **given)


def their_name(name: str) -> str:
    """Their name of our parameter."""
    return name.replace("projector.0.", "mlp.dense.").replace("backbone.", "backbone.inner.", 1)


def blocks(rows: Sequence[Sequence[int]], views: int, pad: int) -> tuple[Tensor, Tensor]:
    """Token ids (B, V, L), and the mask of the tokens, of rows that are ordered view by view."""
    ids, mask = (part.view(views, len(rows) // views, -1) for part in right_padded(rows, pad))
    return ids.transpose(0, 1).contiguous(), mask.transpose(0, 1).contiguous()


def prepared(
    repository: str,
    path: str,
    tokenizer: PreTrainedTokenizerBase,
    columns: Sequence[Sequence[str]],
    **scope: Any,
) -> list[list[int]]:
    """Token ids of the rows of their `prepare_features`, without padding, view by view.

    Args:
        repository: Folder of the clone.
        path: File of its training.
        tokenizer: Tokenizer.
        columns: Sentences; a single column is read twice or more, as for dropout's views.
        scope: Further names that it reads.
    """
    names = ["sent0", "sent1", "hard_neg"][: len(columns)]
    features = definitions(
        repository,
        path,
        "prepare_features",
        tokenizer=tokenizer,
        data_args=types.SimpleNamespace(max_seq_length=32, pad_to_max_length=False),
        sent0_cname=names[0],
        sent1_cname=names[1] if len(names) > 1 else names[0],
        sent2_cname=names[2] if len(names) > 2 else None,
        **scope,
    )["prepare_features"](dict(zip(names, columns, strict=True)))
    rows, masks = features["input_ids"], features["attention_mask"]
    return [
        row[view][: sum(mask[view])]
        for view in range(len(rows[0]))
        for row, mask in zip(rows, masks, strict=True)
    ]


def five_adamw_updates(
    ours: nn.Module,
    our_loss: Callable[[int], Tensor],
    theirs: nn.Module,
    their_loss: Callable[[int], Tensor],
    names: Callable[[str], str] = their_name,
    rounding: tuple[str, ...] = ROUNDING,
) -> None:
    """Compare five updates by AdamW without weight decay; see `five_updates`."""
    five_updates(
        ours,
        our_loss,
        make_optimizer(ours, LEARNING_RATE, 0.0, (0.9, 0.999), EPSILON, fused=False),
        theirs,
        their_loss,
        torch.optim.AdamW(theirs.parameters(), lr=LEARNING_RATE, eps=EPSILON, weight_decay=0.0),
        names,
        rounding=rounding,
    )
