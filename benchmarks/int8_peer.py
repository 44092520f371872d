"""Encode with a backend of sentence-transformers in 8 bits; `encode_int8.py` calls it with another Python.

Export and quantisation are those of its documentation, the static one calibrated on the sentences to encode.
"""

from __future__ import annotations

import csv
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sentence_transformers import SentenceTransformer, backend

FILES = {
    "onnx-qint8": "onnx/model_qint8_avx512_vnni.onnx",
    "openvino-qint8": "openvino/openvino_model_qint8_quantized.xml",
}
"""Files that the exports below write."""


def main() -> None:
    """Write the vectors of the sentences, and print the best seconds of two."""
    kind, source, folder, threads = sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4])
    torch.set_num_threads(threads)
    columns = [list(column) for column in np.load(folder / "sentences.npy")]
    model = _load(kind, source, folder / kind, columns[0][:300])
    seconds = []
    for _ in range(2):
        start = time.perf_counter()
        vectors = [model.encode(column, batch_size=32, show_progress_bar=False) for column in columns]
        seconds.append(time.perf_counter() - start)
    np.save(folder / f"{kind}.npy", np.stack(vectors))
    print(min(seconds))


def _load(kind: str, source: str, folder: Path, sentences: list[str]) -> SentenceTransformer:
    """Return the model on a backend, exported and quantised into a folder."""
    if kind == "torch":
        return SentenceTransformer(source, device="cpu")
    SentenceTransformer(source, device="cpu").save(str(folder))
    name: Any = kind.split("-")[0]
    model = SentenceTransformer(str(folder), device="cpu", backend=name, model_kwargs={"export": True})
    model.save_pretrained(str(folder))
    if kind == "onnx-qint8":
        backend.export_dynamic_quantized_onnx_model(model, "avx512_vnni", str(folder))
    else:
        rows = folder / "sentences"
        rows.mkdir()
        with (rows / "train.csv").open("w", newline="") as file:
            csv.writer(file).writerows([["sentence"], *([sentence] for sentence in sentences)])
        backend.export_static_quantized_openvino_model(
            model,
            None,
            str(folder),
            dataset_name=str(rows),
            dataset_config_name="default",
            dataset_split="train",
            column_name="sentence",
        )
    return SentenceTransformer(
        str(folder), device="cpu", backend=name, model_kwargs={"file_name": FILES[kind]}
    )


if __name__ == "__main__":
    main()
