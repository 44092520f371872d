"""Filtered fine-grained corpus: STS-B and SICK-R training pairs that occur in no test set."""

from __future__ import annotations

from datasets import Dataset, concatenate_datasets

from sts_lightning.core.choices import DevSet, SentEvalText
from sts_lightning.data.counts import STS_PAIRS, STS_POSITIVES
from sts_lightning.data.overlap import OverlapFilter, not_in, why_dropped
from sts_lightning.data.readers.sts_sets import load_sickr, load_stsb
from sts_lightning.data.senteval_module import SentEvalData
from sts_lightning.data.tables import SCORE_RANGE, SourceCount, rows_to_keep


class STSData(SentEvalData):
    """Scored pairs of STS-B train and SICK-R train (Pcc-tuning, Sec. 3 and App. B).

    Pairs that occur in one of the seven test sets, in either order, are dropped: 991 + 4,407 = 5,398
    pairs remain. SICK's relatedness r is mapped to 5 (r - 1) / 4.

    Args:
        root: Data root in SentEval's layout.
        batch_size: Pairs in a batch.
        seed: Random seed of the order.
        filter: Criterion of the overlap: ``exact`` (the papers' corpus), ``normalized`` (letters and digits
            only: 5,318 pairs) or ``none`` (10,249 pairs: the unfiltered corpus of Pcc-tuning v1, which leaks
            test pairs).
        positives_from: Lowest score of the pairs to keep as positives without a label, for contrastive
            losses: 4.0 gives the 1,543 positives of Pcc-tuning's comparison (its Table 3). The paper says
            "greater than 4.0", which would be 1,328.
        num_workers: Number of worker processes that tokenise in the background.
        senteval_text: Text of STS-B dev and the test sets, and of the training pairs (see `SentEvalText`).
        dev: Dev pairs for selection (see `DevSet`).

    Raises:
        ValueError: ``positives_from`` is out of range.
    """

    def __init__(
        self,
        root: str,
        batch_size: int,
        seed: int,
        filter: OverlapFilter = "exact",
        positives_from: float | None = None,
        num_workers: int = 0,
        senteval_text: SentEvalText = "raw",
        dev: DevSet = "stsb",
    ) -> None:
        super().__init__(
            root, batch_size, seed, num_workers=num_workers, senteval_text=senteval_text, dev=dev
        )
        low, high = SCORE_RANGE
        if positives_from is not None and not low <= positives_from <= high:
            raise ValueError(f"positives_from must lie in [{low:g}, {high:g}], got {positives_from}.")
        self.filter: OverlapFilter = filter
        self.positives_from = positives_from
        self.label = "score" if positives_from is None else "none"

    @property
    def published_rows(self) -> int | None:
        """Number of pairs with this filter."""
        if self.positives_from is None:
            return STS_PAIRS[self.filter]
        return STS_POSITIVES.get((self.filter, self.positives_from))

    def load_train(self) -> Dataset:
        """Return the filtered pairs: STS-B, then SICK-R."""
        keep = not_in(self.tables_to_avoid(), self.filter)
        kept = []
        for name, load in (("STS-B train", load_stsb), ("SICK-R train", load_sickr)):
            table = load(self.root, "train")
            # By the text of the files, so that the corpus is the same whatever text trains.
            rows = rows_to_keep(table, keep)
            if self.senteval_text != "raw":
                table = load(self.root, "train", self.senteval_text)
            clean = table.select(rows)
            dropped = {why_dropped(self.filter): len(table) - len(clean)}
            if self.positives_from is not None:
                high = [row for row, score in enumerate(clean["label"]) if score >= self.positives_from]
                dropped[f"below data.positives_from={self.positives_from:g}"] = len(clean) - len(high)
                clean = clean.select(high)
            kept.append(clean)
            self.counts.append(SourceCount(name, len(table), dropped))
        return concatenate_datasets(kept)
