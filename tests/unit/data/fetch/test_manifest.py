"""The record of what was fetched."""

from __future__ import annotations

from pathlib import Path

import pytest

from sts_lightning.core.errors import DataError
from sts_lightning.data.fetch.manifest import ManifestEntry, read_manifest, write_entry

RECORD = ManifestEntry(fetched="2026-01-01", downloads=[{"size": 1}], files={"f": "g"}, rows=1, dropped=0)


def test_records_are_added_and_replaced(tmp_path: Path) -> None:
    assert read_manifest(tmp_path) == {}
    write_entry(tmp_path, "wiki", RECORD)
    write_entry(tmp_path, "sts", RECORD)
    newer = ManifestEntry(fetched="2027-01-01", downloads=[], files={}, rows=2, dropped=1)
    write_entry(tmp_path, "wiki", newer)
    assert read_manifest(tmp_path) == {"wiki": newer, "sts": RECORD}


@pytest.mark.parametrize("text", ["{", "[]", '{"parts": {"wiki": {"x": 1}}}', '{"parts": {"wiki": 3}}'])
def test_a_broken_record(text: str, tmp_path: Path) -> None:
    (tmp_path / "sources.json").write_text(text)
    with pytest.raises(DataError) as caught:
        read_manifest(tmp_path)
    assert caught.value.hint is not None
