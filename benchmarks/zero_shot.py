"""Evaluate an untuned decoder in each template: `python benchmarks/zero_shot.py model=smollm2_135m`.

The seven STS tasks for no template, EOL, STH, SUM, CoT and KE, each with the last token's state and with the
mean of all tokens, of the last layer and of the one below it. All four come from one forward pass; each alone
is `python eval.py prompt=eol prompt.pooling=last_token prompt.layer=-1 ...`. `--record` keeps what is done.
With `--check N` nothing is scored: cosines of the first N pairs of STS-B and SICK-R, by the settings of each
way in float32, are compared with those of a plain loop over transformers.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from hydra import compose
from torch import Tensor
from transformers import AutoModel, AutoTokenizer

from sts_lightning.config.check import check_config
from sts_lightning.config.compose import composing
from sts_lightning.data.readers.sts_sets import SEVEN_TASKS, load_sts_tasks, tables_of
from sts_lightning.evaluation.encoding import Embedded
from sts_lightning.evaluation.sts import (
    encode_pairs,
    encode_tables,
    score_tasks,
    spearman_row,
    table_cosines,
)
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.models.pooling import Pooling, pool
from sts_lightning.models.text.template import edit
from sts_lightning.workflows.evaluate import load_evaluated

TEMPLATES = ("none", "eol", "sth", "sum", "cot", "ke")
POOLINGS: tuple[Pooling, ...] = ("last_token", "mean")
WAYS = [(pooling, layer) for pooling in POOLINGS for layer in (-1, -2)]


def load(template: str, overrides: list[str]) -> tuple[SentenceEncoder, Any]:
    """Load the model as `eval.py` does; the papers edit sentences in templates alone."""
    given = [f"prompt={template}", f"text_edit={'none' if template == 'none' else 'official'}"]
    with composing():
        cfg = check_config(compose("eval", [*given, "senteval_text=prepared", *overrides]))
    return load_evaluated(cfg, "cpu"), cfg


class FourWays:
    """Vectors of all `WAYS` side by side."""

    def __init__(self, encoder: SentenceEncoder) -> None:
        self.encoder = encoder
        encoder.embed_chunk = self.embed_chunk  # type: ignore[method-assign, assignment]

    def embed_chunk(self, chunk: dict[str, Tensor], **_: Any) -> Tensor:
        """Embed the rows of one padded chunk, which a causal model reads without a mask."""
        states = self.encoder.backbone(chunk["input_ids"], output_hidden_states=True).hidden_states
        return torch.cat(
            [pool(pooling, [states[layer]], chunk["attention_mask"]) for pooling, layer in WAYS], dim=1
        )

    def encode(self, sentences: Any) -> np.ndarray:
        """Return the vectors (N, 4 D)."""
        return self.encoder.encode(sentences, share_prefix=False)


def score(template: str, overrides: list[str]) -> dict[str, dict[str, float]]:
    """Score one template on the seven tasks in all ways."""
    encoder, cfg = load(template, overrides)
    tasks = load_sts_tasks(cfg.data_root, SEVEN_TASKS, "prepared")
    found, rows = encode_tables(FourWays(encoder), tables_of(tasks)), {}
    for way, vectors in zip(WAYS, np.split(found.vectors, len(WAYS), axis=1), strict=True):
        cosines = table_cosines(Embedded(vectors, found.index), tables_of(tasks))
        rows["{} {}".format(*way)] = spearman_row(score_tasks(tasks, cosines, "all"))
    return rows


def plain_cosines(
    folder: str, template: str | None, pooling: str, layer: int, pairs: list[tuple[str, str]]
) -> np.ndarray:
    """Compute cosines with transformers alone, one sentence at a time."""
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    values = []
    for pair in pairs:
        vectors = []
        for text in pair:
            filled = text if template is None else template.replace("{sentence}", edit(text, "official"))
            with torch.inference_mode():
                states = model(**tokenizer(filled, return_tensors="pt"), output_hidden_states=True)
            state = states.hidden_states[layer][0]
            vectors.append(state[-1] if pooling == "last_token" else state.mean(dim=0))
        values.append(float(torch.cosine_similarity(vectors[0], vectors[1], dim=0)))
    return np.array(values)


def check(template: str, overrides: list[str], count: int) -> None:
    """Compare each way with the plain loop."""
    for pooling, layer in WAYS:
        settings = ["precision=32-true", f"prompt.pooling={pooling}", f"prompt.layer={layer}"]
        encoder, cfg = load(template, [*overrides, *settings])
        for table in tables_of(load_sts_tasks(cfg.data_root, ("STSB", "SICKR"), "prepared")):
            few = table[:count]
            pairs = list(zip(few["sentence1"], few["sentence2"], strict=True))
            plain = plain_cosines(cfg.model.name, cfg.prompt.template, pooling, layer, pairs)
            apart = np.abs(encode_pairs(encoder, [few])[0] - plain).max()
            print(f"{template} {pooling} {layer}: {count} pairs, largest difference {apart:.1e}", flush=True)


def main() -> None:
    """Run the comparison of templates, or check it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("overrides", nargs="+", help="settings of eval.py, a model and its name at least")
    parser.add_argument("--record", type=Path, default=Path("zero_shot.json"))
    parser.add_argument("--check", type=int, metavar="N")
    arguments = parser.parse_args()
    if arguments.check:
        for template in TEMPLATES:
            check(template, arguments.overrides, arguments.check)
        return
    rows = json.loads(arguments.record.read_text()) if arguments.record.exists() else {}
    for template in TEMPLATES:
        if template not in rows:
            rows[template] = score(template, arguments.overrides)
            arguments.record.write_text(json.dumps(rows, indent=2))
        for way, scores in rows[template].items():
            print(f"{template:5} {way:14}", *(f"{value:6.2f}" for value in scores.values()), flush=True)


if __name__ == "__main__":
    main()
