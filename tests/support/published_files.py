"""Generated data with the published file names and numbers of rows."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping
from functools import cache

import pyarrow as pa
import pyarrow.parquet as pq

from sts_lightning.data.fetch import ROWS, SCORED_PAIRS

SIMCSE = "princeton-nlp/datasets-for-simcse"


def _scored(index: int) -> tuple[str, str, str]:
    return f"word{index} ran .", f"word{index} walked .", f"{index % 6}.0"


def sts_files() -> dict[str, bytes]:
    """Files of STS12-16, STS-B and SICK."""
    return dict(_sts_files())


@cache
def _sts_files() -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    for name, count in SCORED_PAIRS.items():
        rows = [_scored(index) for index in range(count)]
        if "STS.gs." in name:
            pairs = "".join(f"{first}\t{second}\n" for first, second, _ in rows)
            files[name.replace("STS.gs.", "STS.input.")] = pairs.encode()
            files[name] = "".join(f"{score}\n" for *_, score in rows).encode()
        elif name.startswith("STS/"):
            lines = [f"news\tfile\t2012\t{i}\t{s}\t{a}\t{b}\n" for i, (a, b, s) in enumerate(rows)]
            files[name] = "".join(lines).encode()
        else:
            lines = [
                f"{i}\t{a}\t{b}\t{1 + i % 5}\t{('NEUTRAL', 'ENTAILMENT')[i % 2]}\n"
                for i, (a, b, _) in enumerate(rows)
            ]
            files[name] = "".join(
                ["pair_ID\tsentence_A\tsentence_B\trelatedness\tjudgment\n", *lines]
            ).encode()
    return files


def transfer_files() -> dict[str, bytes]:
    """Files of the seven transfer tasks."""
    lines = {"SST": b"fine\t1\n", "TREC": b"LOC:city Where ?\n", "MRPC": b"1\t7\t8\tOne text\tAnother\n"}
    header = {"MRPC": b"Quality\t#1\t#2\tA\tB\n"}
    files = {}
    for name, count in ROWS.items():
        task = name.partition("/")[0]
        files[name] = header.get(task, b"") + lines.get(task, b"some words\n") * count
    return files


@cache
def published_tar() -> bytes:
    """The published archive: the files of the STS tasks and of the transfer tasks."""
    return tar({**sts_files(), **transfer_files()})


def tar(files: Mapping[str, bytes]) -> bytes:
    """A tar file of these files."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return stream.getvalue()


def parquet(rows: list[tuple[str, str, int]], **more: list[str]) -> bytes:
    """A parquet file of premises, hypotheses and labels, as on the hub."""
    columns = dict(zip(("premise", "hypothesis", "label"), map(list, zip(*rows, strict=True)), strict=True))
    stream = io.BytesIO()
    pq.write_table(pa.table({**more, **columns}), stream)
    return stream.getvalue()
