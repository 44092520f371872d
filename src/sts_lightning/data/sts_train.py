"""Filtered fine-grained corpus: STS-B and SICK-R training pairs that occur in no test set."""

from __future__ import annotations

import numpy as np

from sts_lightning.core.choices import DevSet, SentEvalText
from sts_lightning.data.counts import STS_PAIRS, STS_POSITIVES
from sts_lightning.data.data_set import DataSet, Splits
from sts_lightning.data.dev_and_tests import DevAndTests
from sts_lightning.data.overlap import OverlapFilter, pairs_in_tables, why_dropped
from sts_lightning.data.readers.sts_sets import load_sickr, load_stsb
from sts_lightning.data.table import SCORE_RANGE, concatenate


def sts_train(
    root: str,
    filter: OverlapFilter = "exact",
    positives_from: float | None = None,
    senteval_text: SentEvalText = "raw",
    dev: DevSet = "stsb",
) -> DataSet:
    """Scored pairs of STS-B train, then SICK-R train (Pcc-tuning, Sec. 3 and App. B).

    Pairs that occur in one of the seven test sets, in either order, are dropped: 991 + 4,407 = 5,398
    pairs remain. SICK's relatedness r is mapped to 5 (r - 1) / 4.

    Args:
        root: Data root in SentEval's layout.
        filter: Criterion of the overlap: ``exact`` (the papers' corpus), ``normalized`` (letters and digits
            only: 5,318 pairs) or ``none`` (10,249 pairs: the unfiltered corpus of Pcc-tuning v1, which leaks
            test pairs).
        positives_from: Lowest score of the pairs to keep as positives without a label, for contrastive
            losses: 4.0 gives the 1,543 positives of Pcc-tuning's comparison (its Table 3). The paper says
            "greater than 4.0", which would be 1,328.
        senteval_text: Text of STS-B dev and the test sets, and of the training pairs (see `SentEvalText`).
        dev: Dev pairs for selection (see `DevSet`).

    Raises:
        ValueError: ``positives_from`` is out of range.
    """
    evaluation = DevAndTests(root, senteval_text=senteval_text, dev=dev)
    low, high = SCORE_RANGE
    if positives_from is not None and not low <= positives_from <= high:
        raise ValueError(f"positives_from must lie in [{low:g}, {high:g}], got {positives_from}.")
    published = STS_PAIRS[filter] if positives_from is None else STS_POSITIVES.get((filter, positives_from))

    def read() -> Splits:
        tests, tables = pairs_in_tables(evaluation.test_pairs(), filter), []
        for name, load in (("STS-B train", load_stsb), ("SICK-R train", load_sickr)):
            # Compared by the text of the files, so that the corpus is the same whatever text trains.
            leaked = tests.rows_in(load(root, "train"))
            table = load(root, "train", senteval_text).read_from(name).drop(leaked, why_dropped(filter))
            if positives_from is not None:
                less = np.asarray(table["label"]) < positives_from
                table = table.drop(less, f"below data.positives_from={positives_from:g}")
            tables.append(table)
        return evaluation.complete(concatenate(tables), published is not None)

    return DataSet(read, label="score" if positives_from is None else "none", published_rows=published)
