"""Sentences encoded by several processes together."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import distributed

from sts_lightning.evaluation.encoding import ShardedEncoder
from tests.unit.evaluation.test_divided import Lengths


def _process(rank: int, count: int, folder: str, texts: list[str]) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{folder}/group", rank=rank, world_size=count)
    encoder = Lengths(rank)
    np.save(f"{folder}/{rank}.npy", ShardedEncoder(encoder).encode(texts))
    Path(f"{folder}/{rank}.txt").write_text("\n".join(encoder.read))
    distributed.destroy_process_group()


@pytest.mark.parametrize(("count", "number"), [(2, 7), (3, 7), (3, 2), (2, 1)])
def test_all_processes_get_all_vectors(count: int, number: int, tmp_path: Path) -> None:
    texts = [letter * length for letter, length in zip("abcdefg", (3, 1, 4, 1, 5, 9, 2), strict=True)][
        :number
    ]
    torch.multiprocessing.spawn(_process, (count, str(tmp_path), texts), nprocs=count)
    results = [np.load(tmp_path / f"{rank}.npy") for rank in range(count)]
    for result in results:
        assert result[:, 0].tolist() == [len(text) for text in texts]
        np.testing.assert_array_equal(result, results[0])
    read = [(tmp_path / f"{rank}.txt").read_text().split("\n") for rank in range(count)]
    sizes = [len(part) for part in read]
    assert max(sizes) - min(sizes) <= 1
    if number >= count:
        assert sorted(text for part in read for text in part) == sorted(texts)
