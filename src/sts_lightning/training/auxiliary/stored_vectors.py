"""Vectors of known sentences, stored in a folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sts_lightning.core.errors import DataError, counted
from sts_lightning.data.readers.lines import read_lines

SENTENCES, VECTORS = "sentences.txt", "vectors.npy"


def has_vectors(folder: Path) -> bool:
    """Return whether a folder holds stored vectors."""
    return (folder / VECTORS).is_file()


class StoredVectors:
    r"""Look-up of the vectors of sentences, made once by whatever encoder.

    The folder holds ``sentences.txt``, one sentence a line, and ``vectors.npy``, the vector of each line,
    (N, D) in any floating dtype. The vectors stay on disk; those that are asked for are read. Example of how
    to make one::

        np.save("vectors.npy", encoder.encode(Path("sentences.txt").read_text().strip().split("\n")))

    Args:
        folder: The folder.

    Raises:
        DataError: A file is missing or malformed, or the two differ in length.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / SENTENCES
        lines = read_lines(self.path)
        try:
            self.vectors = np.load(folder / VECTORS, mmap_mode="r", allow_pickle=False)
        except Exception as error:  # numpy and zipfile have errors of many kinds
            raise DataError(f"cannot be read: {error}", folder / VECTORS) from error
        matrix = isinstance(self.vectors, np.ndarray) and self.vectors.ndim == 2  # not an archive of arrays
        if not matrix or self.vectors.dtype.kind != "f":
            raise DataError("must be a matrix of floating-point numbers.", folder / VECTORS)
        if len(lines) != len(self.vectors):
            lined, rows = counted(len(lines), "line"), counted(len(self.vectors), "row")
            raise DataError(f"has {lined}, but {VECTORS} has {rows}.", self.path)
        self.rows = {line.strip(): index for index, line in enumerate(lines)}

    @property
    def dimension(self) -> int:
        """Size D of a vector."""
        return int(self.vectors.shape[1])

    def encode(self, sentences: Sequence[str]) -> np.ndarray:
        """Return the vectors of sentences, (N, D) in float32.

        Raises:
            DataError: A sentence is not among the stored ones, or a value of its vector is NaN or infinite.
        """
        try:
            rows = [self.rows[sentence.strip()] for sentence in sentences]
        except KeyError as error:
            raise DataError(
                f"lacks a sentence of the training data: {error.args[0]!r}.", self.path
            ) from error
        vectors: np.ndarray = np.asarray(self.vectors[rows], dtype=np.float32)
        wrong = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
        if len(wrong):
            raise DataError(
                f"the vector of line {rows[wrong[0]] + 1} has values that are NaN or infinite.",
                self.path.with_name(VECTORS),
            )
        return vectors
