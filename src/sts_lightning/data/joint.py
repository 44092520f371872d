"""Joint data: several data sets in one run, of which each batch has the examples of one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sts_lightning.data.data_set import DataSet, Splits
from sts_lightning.data.overlap import report_common
from sts_lightning.data.ranking import Ranking
from sts_lightning.data.table import PART, Table, concatenate, hash_tables
from sts_lightning.data.tasks import Dev, pairs_in


def joint(
    parts: Mapping[str, DataSet] | None = None,
    shares: Mapping[str, float] | None = None,
    dev_part: str | None = None,
) -> DataSet:
    """Several data sets, each with views and labels of its own; a batch has examples of one of them.

    That is the sampling of CoDiEmb (Zhang et al. 2025, arXiv 2508.11442), whose `sampler
    <https://github.com/TencentCloudADP/youtu-embedding/blob/main/training/CoDiEmb/train/sampler.py>`_ also
    has a batch size for each data set. ``loss=joint`` gives each part a loss.

    Args:
        parts: Data sets by name.
        shares: Share of each part in the batches of an epoch. The epoch then ends with the part that is the
            first to be used up; of the others it has a random sample, drawn anew in each epoch. By default an
            epoch has each example once, so that a part's share is that of its batches.
        dev_part: Part whose dev pairs select, and whose test tasks are reported; the last one by default.

    Raises:
        ValueError: A part is missing or named twice over, or a share is not positive.
    """
    parts = parts or {}
    if len(parts) < 2:
        raise ValueError(
            "parts must be at least two data sets by name: +data@data.parts.nli=nli_triplets "
            "+data@data.parts.sts=sts."
        )
    known = ", ".join(parts)
    chosen = list(parts)[-1] if dev_part is None else dev_part
    if chosen not in parts:
        raise ValueError(f"dev_part must be one of {known}, got {dev_part}.")
    if shares is not None and (set(shares) != set(parts) or not all(share > 0 for share in shares.values())):
        raise ValueError(f"shares must be a positive number for each of {known}, got {dict(shares)}.")

    def read() -> Splits:
        splits = {name: part.read() for name, part in parts.items()}
        selecting = splits[chosen]
        for name, part in splits.items():  # of the selecting part itself all are equal
            pairs = {"dev": tuple(_pairs_of(each.dev) for each in (part, selecting))}
            pairs["test"] = (pairs_in(part.tests), pairs_in(selecting.tests))
            for kind, (own, theirs) in pairs.items():
                if hash_tables(own) != hash_tables(theirs):  # else the part's own reader has compared
                    report_common(part.train, theirs, f"{kind} pairs of {chosen} (in {name})")
        table = _together({name: part.train for name, part in splits.items()})
        return Splits(table, selecting.dev, selecting.tests, selecting.other_counts, parts=splits)

    return DataSet(read, unit="examples", parts=parts, shares=shares, keep_general=parts[chosen].keep_general)


def _pairs_of(dev: Dev) -> list[Table]:
    return [dev.pairs] if isinstance(dev, Ranking) else [dev]


def _together(tables: Mapping[str, Table]) -> Table:
    """Return the rows of all tables with the name of their own; None where a table lacks a column."""
    names = sorted({name for table in tables.values() for name in table.columns})
    together = []
    for part, table in tables.items():
        columns = {name: table.columns.get(name, [None] * len(table)) for name in names}
        if "label" in table.columns:  # a class, too: a column has one type
            columns["label"] = list(map(float, table["label"]))
        columns[PART] = [part] * len(table)
        sources = [replace(source, source=f"{part}: {source.source}") for source in table.sources]
        together.append(Table(columns, sources, table.source))
    return concatenate(together)
