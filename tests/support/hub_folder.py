"""Folders of tables as on the hub, and caches of the libraries that belong to one test."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

NAMES = ("sentence1", "sentence2", "score")

Rows = Sequence[tuple[Any, Any, Any]]


@contextmanager
def own_caches(folder: Path) -> Iterator[None]:
    """Directs the caches of the libraries to a folder."""
    import datasets.config
    from huggingface_hub import constants

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(datasets.config, "HF_DATASETS_CACHE", folder / "datasets")
        patch.setattr(constants, "HF_HUB_CACHE", str(folder / "hub"))
        yield


def rows(count: int, start: int = 0, top: float = 5.0) -> list[tuple[str, str, float]]:
    """Distinct pairs with scores from 0 to ``top``."""
    return [(f"first {i}", f"second {i}", top * (i % 5) / 4) for i in range(start, start + count)]


def save(folder: Path, split: str, pairs: Rows, kind: str = "parquet", names: Sequence[str] = NAMES) -> Path:
    """Write a split in one of the formats."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{split}.{kind}"
    if kind == "parquet":
        pq.write_table(pa.table({name: [pair[i] for pair in pairs] for i, name in enumerate(names)}), path)
    elif kind == "jsonl":
        path.write_text("".join(json.dumps(dict(zip(names, pair, strict=True))) + "\n" for pair in pairs))
    else:
        lines = [",".join(names), *(",".join(map(str, pair)) for pair in pairs)]
        path.write_text("\n".join(lines) + "\n")
    return path
