"""The page on the state of every table and figure."""

from __future__ import annotations

from tests.conftest import ROOT
from tests.unit.repository.test_state_of_tables import page as page


def test_the_committed_page_is_the_generated_one(page: str) -> None:
    assert (ROOT / "docs" / "reproduction.md").read_text() == page, "make docs-reproduction writes it again"
