"""Numbers of training examples: of a run, and in the papers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

TRIPLETS = 275_601
"""Triplets of SimCSE's nli_for_simcse.csv."""

SENTENCES = 1_000_000
"""Wikipedia sentences of SimCSE's wiki1m_for_simcse.txt."""

NLI_SOURCES = {"snli": 549_367, "multinli": 392_702}
"""Training pairs of SNLI and MultiNLI with a class."""

NLI_PAIRS = sum(NLI_SOURCES.values())
"""These pairs together: what Sentence-BERT trains on."""

DEFINITE_NLI_PAIRS = 628_405
"""These pairs without the neutral ones: 314,315 entailments and 314,090 contradictions."""

STS_PAIRS: dict[str, int] = {"exact": 991 + 4_407, "normalized": 951 + 4_367, "none": 5_749 + 4_500}
"""Pairs of STS-B train and SICK-R train that pass the filter against the test sets.

``exact`` is the corpus of Pcc-tuning and STS-Regression, ``none`` that of Pcc-tuning's first version;
``normalized`` is what the same files give by the stricter filter.
"""

STS_POSITIVES = {("exact", 4.0): 1_543}
"""Pairs among these from the given score on (Pcc-tuning, Table 3)."""


def reasons_of(dropped: Mapping[str, int]) -> list[str]:
    """Return in words how many rows were dropped for each reason that dropped any."""
    return [f"{count:,} dropped: {why}" for why, count in dropped.items() if count]


@dataclass(frozen=True)
class TrainingCount:
    """Number of examples that a run trained on, and of those that the papers trained on.

    Attributes:
        source: Names of the files or data sets.
        unit: Noun for the examples: triplets, pairs or sentences.
        rows: Number of examples, after all filters and without the dev split.
        published: Number in the papers; None for toy data and the user's own.
        dropped: Rows dropped, by reason.
    """

    __pydantic_config__ = {"extra": "forbid"}

    source: str
    unit: str
    rows: int
    published: int | None = None
    dropped: Mapping[str, int] = field(default_factory=dict)

    @property
    def differs(self) -> bool:
        """Whether the number is another than the published one."""
        return self.published is not None and self.rows != self.published

    @property
    def reasons(self) -> str:
        """Rows dropped, with their reasons, or an empty text."""
        return ", ".join(reasons_of(self.dropped))

    def __str__(self) -> str:
        if self.published is None:
            return f"{self.rows:,} {self.unit} ({self.source})"
        return f"{self.rows:,} of {self.published:,} {self.unit}"
