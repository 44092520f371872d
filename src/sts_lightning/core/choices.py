"""The choices of the configuration, each defined once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

Frozen = Literal["none", "encoder", "encoder_with_dropout"]
"""Frozen part of the model.

``encoder``: the encoder's weights, with dropout off. ``encoder_with_dropout``: its weights only, as in
STS-Regression's code.
"""

LabelKind = Literal["none", "score", "class"]
"""Label of a training example: none, a similarity score in [0, 5], or a class index."""

Augmentation = Callable[[list[int], Sequence[int]], list[int]]
"""Change of a row of tokens: from its ids, and 1 for each special token and 0 for others, to new ids."""

EMPTY = -1
"""Number, in place of that of a text, of a hard negative that a row of a batch lacks."""

Init = Literal["best", "final"]
"""Weights of an earlier run to start from: those of the best dev score, or those at its end."""

Denoise = Literal["none", "shift", "pad"]
"""Vector of the bare template that is subtracted from a sentence's vector.

``none``: nothing is subtracted; ``shift``: the template without a sentence, its positions after the slot
shifted by the length of the sentence (PromptBERT); ``pad``: the template with as many pad tokens in the slot,
attended to (CoT-BERT).
"""

TextEdit = Literal["none", "official", "prompt_bert"]
"""Edit of dev and test sentences before the template.

``none``: the sentence as it is. ``official``: the three edits in the code of PromptEOL and Pcc-tuning.
``prompt_bert``: a final period and nothing else, as in the code of PromptBERT and CoT-BERT.
"""

Role = Literal["query", "document"]
"""What a text is to the texts that it is compared with: a query, or a document that may answer it."""

DevSet = Literal["stsb", "stsb_clean"]
"""Dev pairs on which checkpoints are compared.

``stsb``: STS-B dev, as in the papers. ``stsb_clean``: those of its pairs that are in no test set.
"""

SentEvalText = Literal["raw", "prepared"]
"""Text of STS12-16, STS-B and SICK.

``raw``: that of the files. ``prepared``: that of SentEval's script, which the papers read: tokenised by Moses
and, all but SICK, lower-cased.
"""

TextFound = Literal["raw", "prepared", "prepared_files"]
"""Text as it was read: raw, prepared here from raw files, or prepared already in the files."""

DtypeName = Literal["auto", "float32", "bfloat16", "float16"]
"""dtype of the weights, and compute dtype of quantised ones; for ``auto`` see `dtype_of`."""

Quantization = Literal["none", "4bit", "8bit"]
"""``4bit``: NF4 with quantised scales (QLoRA); ``8bit``: LLM.int8()."""

Attention = Literal["eager", "sdpa"]
"""Implementation of attention in the backbone.

``sdpa``: torch's ``scaled_dot_product_attention``, whose fused kernels store no attention weights;
``eager``: one operation after another.
"""

Precision = Literal["32-true", "bf16-true", "16-true"]
"""Weights and arithmetic of an encoder in inference, in Lightning's names."""

EvalPrecision = Literal["auto", "32-true", "bf16-true", "16-true"]
"""Precision of an evaluation; ``auto``: bfloat16 where the device multiplies it natively."""

TrainPrecision = Literal["auto", "32-true", "bf16-mixed", "16-mixed"]
"""Precision of training, in Lightning's names; ``auto``: decided by the machine."""

Accelerator = Literal["auto", "cpu", "gpu", "mps"]
"""Hardware of training or evaluation."""

Deterministic = Literal["auto", "warn"] | bool
"""Treatment of CUDA operations without a deterministic form."""

Schedule = Literal["linear", "cosine", "constant_with_warmup"]
"""Course of the learning rate after the warm-up."""

Aggregate = Literal["all", "mean", "wmean"]
"""How the subsets of an STS task become one score.

``all``: one correlation over the concatenation of all subsets, which SimCSE and its followers report;
``mean``: mean of the subsets' correlations; ``wmean``: the same, weighted by size.
"""

Views = Literal["none", "dropout"]
"""Pairs of views that a `RankMonitor` measures besides the dev pairs.

``none``: no others; ``dropout``: each dev sentence twice, with different dropout.
"""

Classifier = Literal["sklearn", "pytorch"]
"""Training of the regression of SentEval's transfer and probing tasks.

``sklearn``: by scikit-learn, to its end (SentEval's ``usepytorch=False``); ``pytorch``: by Adam, stopped
early (``usepytorch=True``), as papers report.
"""

Suite = Literal["sts", "rank", "transfer", "probing", "mteb"]
"""Tasks that `eval.py` scores a model on."""

StoredAs = Literal["float32", "int8", "binary"]
"""Type of the values of stored vectors; see `sts_lightning.evaluation.quantized`."""

ExportFormat = Literal["adapter", "merged", "sentence-transformers", "onnx"]
"""``adapter``: a peft adapter; ``merged``: a transformers model with the adapter merged into its weights;
``sentence-transformers``: a merged model with template and pooling; ``onnx``: the same as a graph."""
