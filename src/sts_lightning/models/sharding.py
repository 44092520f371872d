"""Weights divided among processes (FSDP2): each holds a part, and gathers a layer while it runs.

The processes gather a layer together, so that all of them have to run the backbone equally often, in
training, in evaluation and in the backward pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, distributed, nn

from sts_lightning.models.quantization import is_quantised
from sts_lightning.models.tokenized_batch import TokenizedBatch

if TYPE_CHECKING:  # their import takes seconds, and few runs divide their weights
    from peft import PeftModel
    from torch.distributed.device_mesh import DeviceMesh
    from transformers import PreTrainedModel


def is_sharded(module: nn.Module) -> bool:
    """Return whether the weights of a module itself, or of a part of it, are divided."""
    kinds = {base.__name__ for part in module.modules() for base in type(part).__mro__}
    return "FSDPModule" in kinds


def is_divided(value: Tensor) -> bool:
    """Return whether a tensor is divided."""
    return type(value).__name__ == "DTensor" or type(value.data).__name__ == "DTensor"


def shard_backbone(backbone: PreTrainedModel | PeftModel, mesh: DeviceMesh) -> None:
    """Divide the weights of a transformer, in place: those of each layer, the table of words, and the rest.

    The processes have to embed and encode together from then on, each its own sentences.

    Args:
        backbone: Transformer, possibly in an adapter.
        mesh: The processes, in one dimension.
    """
    from torch.distributed.fsdp import fully_shard

    on_gpu = mesh.device_type == "cuda"
    device = torch.device("cuda", torch.cuda.current_device()) if on_gpu else torch.device(mesh.device_type)
    for part in (*outermost_layers(backbone), backbone.get_input_embeddings(), backbone):
        part.to(device)
        for module in part.modules():
            if is_quantised(module):
                _hold_scales(module)
        # The backbone itself too: evaluation, which has no backward pass, would not divide it again.
        fully_shard(part, mesh=mesh, reshard_after_forward=True)


def outermost_layers(backbone: nn.Module) -> list[nn.Module]:
    """Return the members of all lists of modules that are in no other list: the layers of a transformer."""
    found: list[nn.Module] = []
    for child in backbone.children():
        found += list(child) if isinstance(child, nn.ModuleList) else outermost_layers(child)
    return found


def _hold_scales(layer: Any) -> None:
    """Keep the scales of a 4-bit layer beside its weight, which becomes a plain parameter.

    The forward pass of bitsandbytes reads them from the layer where the weight has none. It must not pack
    the weight anew for a CPU, since only the weight that is gathered for one pass would be packed.
    """
    weight: Any = dict(layer.named_parameters(recurse=False)).get("weight")
    if getattr(weight, "quant_state", None) is None:
        return  # an adapter's layer around it, or one that is done already
    layer.quant_state = weight.quant_state
    layer.support_avx512bf16_for_cpu = False
    layer.weight = nn.Parameter(weight.detach().as_subclass(Tensor), requires_grad=False)


def in_step(rows: TokenizedBatch, device: torch.device) -> TokenizedBatch:
    """Return the rows of this process in as many chunks as the process with the most chunks has.

    Args:
        rows: Rows of this process, at least one.
        device: Device of the weights, to which the chunks are moved.
    """
    most = torch.tensor(len(rows.chunks), device=device)
    distributed.all_reduce(most, distributed.ReduceOp.MAX)
    chunks = [
        {name: values.to(device) for name, values in chunk.items()}
        for chunk in rows.in_chunks(int(most)).chunks
    ]
    return replace(rows, chunks=chunks)


def gathered(value: Any, keep: bool = True) -> Any:
    """Return nested dictionaries and lists of tensors on the CPU, with the divided ones put together.

    All processes have to call it together, with values of the same structure.

    Args:
        value: Tensors, or containers of them; anything else is returned as it is.
        keep: Whether this process wants them; otherwise tensors become None.
    """
    if isinstance(value, Tensor):
        full: Tensor = value.full_tensor() if is_divided(value) else value  # type: ignore[attr-defined]
        return full.detach().cpu() if keep else None
    if isinstance(value, Mapping):
        return {key: gathered(part, keep) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(gathered(part, keep) for part in value)
    return value


def divided(value: Tensor, like: Any) -> Tensor:
    """Return this process's part of a tensor, if ``like`` is divided and of its shape; else the tensor.

    Args:
        value: A tensor that is equal in all processes.
        like: Tensor of the model.
    """
    if not is_divided(like) or value.shape != like.shape:
        return value
    from torch.distributed.tensor import distribute_tensor

    local = value.to(like.device)
    return distribute_tensor(local, like.device_mesh, like.placements, src_data_rank=None)


def load_weights(module: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Load weights by name into a module, whether it is divided or not; others stay as they are."""
    if is_sharded(module):
        own = module.state_dict()
        weights = {name: divided(value, own[name]) for name, value in weights.items()}
    module.load_state_dict(weights, strict=False)
