"""Predict Pcc-tuning's Table 7, memory of the papers' own step: `python benchmarks/plan_table7.py`.

Traced without weights, for one of four GPUs: the causal language model with its head, NF4 weights computed in
float32, eager attention with a padding mask, LoRA on all linear layers, all hidden states kept, fp16
autocast, gradient checkpointing, DDP's buckets. Assumptions: rows are padded to 48 tokens in stage 1 and 56
in stage 2; the published number is the sum over the GPUs of tensors, of what is lost between them (5 %, as in
`sts-lightning plan`) and of CUDA's context (0.75 GiB). Layers are extrapolated from traces of two and three.
"""

from __future__ import annotations

from typing import Any

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, BitsAndBytesConfig
from transformers.quantizers.auto import AutoHfQuantizer

from sts_lightning.planning.cards import CONTEXT, FRAGMENTS
from sts_lightning.planning.fake import fake_mode, make_fake, stored_tensors
from sts_lightning.planning.kernels import gpu_kernels, masks_of_real_rows
from sts_lightning.planning.meter import Meter
from sts_lightning.planning.shapes import published_shape

GPUS = 4
LENGTHS = {1: 48, 2: 56}
VIEWS = {1: 3, 2: 2}
CELLS = {
    "facebook/opt-6.7b": {1: (64, 91.83), 2: (50, 58.44)},
    "huggyllama/llama-7b": {1: (62, 93.82), 2: (50, 65.22)},
    "meta-llama/Llama-2-7b-hf": {1: (62, 93.82), 2: (54, 69.37)},
    "mistralai/Mistral-7B-v0.1": {1: (60, 93.41), 2: (52, 73.31)},
}
"""Sentences pairs or triplets of a GPU, and GB of the four, by model and stage (prompt SUM)."""


def model_of(name: str, layers: int) -> Any:
    """Build the papers' model on the meta device."""
    config: Any = published_shape(name)
    config.num_hidden_layers, config.use_cache = layers, False
    with torch.device("meta"):
        whole: Any = AutoModelForCausalLM.from_config(
            config, dtype=torch.float32, attn_implementation="eager"
        )
    settings = BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=torch.float32,
    )
    quantizer = AutoHfQuantizer.from_config(settings)
    quantizer.preprocess_model(model=whole, device_map={"": "cpu"})
    quantizer.postprocess_model(model=whole)
    lora = LoraConfig(
        r=64,
        lora_alpha=16,
        lora_dropout=0.05,
        target_modules="all-linear",
        exclude_modules=["lm_head"],
        task_type="CAUSAL_LM",
    )
    adapted: Any = get_peft_model(whole, lora, low_cpu_mem_usage=True)
    whole.gradient_checkpointing_enable({"use_reentrant": False})
    return adapted.train()


def step_bytes(name: str, stage: int, rows: int, layers: int) -> int:
    """Return the peak of a step after the first on one GPU."""
    model, mode, meter = model_of(name, layers), fake_mode(), Meter()
    make_fake(model, mode)
    for _, tensor in stored_tensors(model):
        meter.add(tensor, "weights")
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained)
    ids = torch.ones(rows, LENGTHS[stage], dtype=torch.long)
    with mode, meter, gpu_kernels(), masks_of_real_rows():
        buckets = [torch.zeros_like(parameter) for parameter in trained]
        for parameter in trained:
            parameter.grad = torch.zeros_like(parameter)
        optimizer.step()
        ids = torch.ones_like(ids)
        with torch.autocast("cpu", torch.float16):
            output = model(input_ids=ids, attention_mask=ids, output_hidden_states=True)
        logits = output.logits.float()  # as the papers' version of the library
        vectors = torch.nn.functional.normalize(output.hidden_states[-1][:, -1].float())
        loss = (vectors @ vectors.t()).sum()
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()
    del buckets, logits
    return meter.peak.total()


def main() -> None:
    """Print each cell beside the published one."""
    errors = []
    for name, stages in CELLS.items():
        for stage, (batch, published) in stages.items():
            low, high = (step_bytes(name, stage, batch * VIEWS[stage], layers) for layers in (2, 3))
            one = (low + 30 * (high - low)) / (1 - FRAGMENTS) + CONTEXT
            found = GPUS * one / 1e9
            errors.append(found / published - 1)
            print(
                f"{name} stage {stage}: {found:.2f} GB, published {published}: {errors[-1]:+.0%}", flush=True
            )
    within = sum(abs(error) <= 0.15 for error in errors)
    print(f"{within} of {len(errors)} cells within 15 %")


if __name__ == "__main__":
    main()
