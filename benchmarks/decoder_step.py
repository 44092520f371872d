"""Time both stages of Pcc-tuning against the papers' training step: `make bench-decoder` or `bench-mistral`.

The papers' step, re-created: the language-model head is computed, all views are padded on the left to a
multiple of 8 that fits the longest, and activations of the whole batch are kept (unless `--checkpointing`
enables gradient checkpointing, in ours where it has no micro batches, which recompute by themselves). Ours:
no head, chunks of similar length, and micro batches of each size that `--micro` lists. Both have the same
weights, sentences, LoRA and loss.
"""

from __future__ import annotations

import argparse
import copy
import json
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from decoders import SHAPES, TEMPLATES, lora, make_encoder, make_mistral, triplets
from peft import get_peft_model
from transformers import MistralForCausalLM

from sts_lightning.losses.base import Loss
from sts_lightning.losses.contrastive import InfoNCELoss
from sts_lightning.losses.pearson import PearsonLoss
from sts_lightning.models.compute.budget import is_out_of_memory
from sts_lightning.testing.tiny_decoders import byte_tokenizer

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
GOAL = 1.5


def papers_step(options: argparse.Namespace, views: list[list[str]], loss: Loss) -> Callable[[], None]:
    """Return the papers' training step as a function."""
    dtype = DTYPES[options.papers_compute]
    body = make_mistral(options.shape, dtype, options.device, options.nf4)
    empty = copy.deepcopy(body.config)
    empty.num_hidden_layers = 0  # the layers are those of `body`
    with torch.device(options.device):
        whole = MistralForCausalLM(empty)
    whole.model = body
    whole.config = body.config
    whole.lm_head = whole.lm_head.to(options.device, dtype)
    settings = lora()
    settings.exclude_modules = ["lm_head"]
    model = get_peft_model(whole, settings).train()
    if options.checkpointing:
        whole.activation_checkpointing_enable({"use_reentrant": False})
    tokenizer = byte_tokenizer("<s>")
    tokenizer.pad_token = tokenizer.unk_token
    tokenizer.padding_side = "left"
    texts = [TEMPLATES["eol"].replace("{sentence}", text) for view in views for text in view]
    labels = torch.linspace(0, 5, len(views[0]), device=options.device)

    def run() -> None:
        encoded = tokenizer(texts, padding=True, pad_to_multiple_of=8, return_tensors="pt").to(options.device)
        with torch.autocast(options.device, torch.bfloat16, enabled=options.mixed):
            output = model(
                input_ids=encoded["input_ids"],
                attention_mask=encoded["attention_mask"],
                output_hidden_states=True,
            )
        vectors = output.hidden_states[-1][:, -1].float()
        scores = labels if loss.needs.labels == ("score",) else None
        loss(vectors.unflatten(0, (len(views), -1)), scores).backward()
        model.zero_grad()

    return run


def our_step(
    options: argparse.Namespace, views: list[list[str]], loss: Loss, micro: str | None
) -> Callable[[], None]:
    """Return this project's training step as a function."""
    encoder = make_encoder(options.shape, DTYPES[options.compute], options.device, options.nf4).train()
    if options.checkpointing and micro is None:
        encoder.checkpoint_layers()
    labels = torch.linspace(0, 5, len(views[0]), device=options.device)
    mixed = partial(torch.autocast, options.device, torch.bfloat16, enabled=options.mixed)
    most_rows = None if micro is None else int(micro) * len(views)

    def run() -> None:
        rows = encoder.prepare(options.chunk_tokens, training=True)(views, [None] * len(views))
        rows = rows.limited(most_rows)
        rows.chunks = [{k: v.to(options.device) for k, v in chunk.items()} for chunk in rows.chunks]
        with mixed():
            kept = None if most_rows is None else rows.last_within(most_rows, None)
            vectors = encoder(rows, kept)
        scores = labels if loss.needs.labels == ("score",) else None
        loss(vectors.unflatten(0, (len(views), -1)), scores).backward()
        encoder.zero_grad()

    return run


def measure(
    options: argparse.Namespace, views: list[list[str]], loss: Loss, step: Callable[..., Callable[[], None]]
) -> dict[str, Any]:
    """Return speed and peak memory of one of the steps."""
    cuda = options.device == "cuda"
    texts = [TEMPLATES["eol"].replace("{sentence}", text) for view in views for text in view]
    tokens = sum(map(len, byte_tokenizer("<s>")(texts)["input_ids"]))
    run = step(options, views, loss)
    run()
    if cuda:
        torch.cuda.reset_peak_memory_stats()
    times = []
    for _ in range(options.turns):
        if cuda:
            torch.cuda.synchronize()  # the first pass runs on
        begin = time.perf_counter()
        run()
        if cuda:
            torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    seconds = statistics.median(times)
    memory = torch.cuda.max_memory_allocated() if cuda else None
    del run
    if cuda:
        torch.cuda.empty_cache()
    return {
        "batch": len(views[0]),
        "seconds": seconds,
        "tokens_per_second": tokens / seconds,
        "examples_per_second": len(views[0]) / seconds,
        "peak_bytes": memory,
    }


def parse() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shape", choices=list(SHAPES), default="small")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--nf4", action="store_true", help="quantise the linear layers")
    parser.add_argument("--mixed", action="store_true", help="bfloat16 autocast in both")
    parser.add_argument("--compute", choices=list(DTYPES), default="float32", help="our dtype")
    parser.add_argument("--papers-compute", choices=list(DTYPES), default="float32")
    parser.add_argument("--checkpointing", action="store_true", help="gradient checkpointing")
    parser.add_argument("--stages", type=int, nargs="+", choices=[1, 2], default=[1, 2])
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--papers-batch", type=int, help="their batch size (default: --batch)")
    parser.add_argument("--micro", nargs="+", default=[None], help="examples of our micro batches")
    parser.add_argument("--chunk-tokens", type=int, default=2048)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument(
        "--generated", action="store_true", help="sentences of the toy language: needs no data"
    )
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    return parser.parse_args()


def main() -> None:
    """Measure both in turns and print the ratios."""
    options = parse()
    steps: dict[str, tuple[int, Callable[..., Callable[[], None]]]] = {
        "papers": (options.papers_batch or options.batch, papers_step)
    }
    for micro in options.micro:
        name = "ours" if micro is None else f"ours, micro {micro}"
        steps[name] = options.batch, partial(our_step, micro=micro)
    columns = triplets(max(batch for batch, _ in steps.values()), options.generated)
    found: list[dict[str, Any]] = []
    for stage, num_views, loss in ((1, 3, InfoNCELoss()), (2, 2, PearsonLoss())):
        if stage not in options.stages:
            continue
        goal = f" (goal: at least {GOAL})" if stage == 1 else ""
        speed = {}
        for name, (batch, step) in steps.items():
            try:
                result = measure(options, [column[:batch] for column in columns[:num_views]], loss, step)
            except RuntimeError as error:
                if not is_out_of_memory(error):
                    raise
                print(f"stage {stage}, {name:16} batch {batch:4}: memory ran out")
                torch.cuda.empty_cache()
                continue
            found.append({"stage": stage, "step": name, **result})
            speed[name] = result["tokens_per_second"]
            peak = result["peak_bytes"]
            used = "" if peak is None else f", peak {peak / 2**30:.1f} GiB"
            if name != "papers" and "papers" in speed:
                used += f", {speed[name] / speed['papers']:.2f} x the papers'{goal}"
            print(f"stage {stage}, {name:16} batch {batch:4}: {speed[name]:8.0f} real tokens a second{used}")
            if options.json:
                options.json.write_text(json.dumps(found))
    if options.device == "cuda":
        print(torch.cuda.get_device_name())


if __name__ == "__main__":
    main()
