"""Plain sentences, for unsupervised training: every view is the same sentence."""

from __future__ import annotations

from datasets import Dataset

from sts_lightning.data.augment import Repetition
from sts_lightning.data.collate import View
from sts_lightning.data.module import COLUMNS, SentEvalData
from sts_lightning.data.pair_tables import SourceCount, make_table, sample_rows
from sts_lightning.data.readers.row_values import sentence
from sts_lightning.data.readers.text_files import read_lines
from sts_lightning.errors import ConfigError


class SentencesData(SentEvalData):
    """The lines of a text file; dropout, templates or repetition make the views of a sentence differ.

    Args:
        root: Data root; STS-B dev and the seven test sets are read from it too.
        path: A text file with one sentence a line, empty lines apart; the first of
            ``wiki1m_for_simcse.txt`` and ``unsup/sentences.txt`` under the root if not given.
        batch_size: Sentences in a batch.
        seed: Seed of the order and of repetitions.
        views: How many times a sentence is embedded: 2, or 3 with the three templates of CoT-BERT.
        repetition: Highest share of sub-words that are repeated in the second view, 0 for none
            (`Repetition`).
        official_repetition: Draw repetitions as ESimCSE's code does.
        limit: Use that many sentences, drawn at random but always the same ones; all if not given.
        num_workers: Processes that tokenise ahead.
    """

    label = "none"

    def __init__(
        self,
        root: str,
        batch_size: int,
        seed: int,
        path: str | None = None,
        views: int = 2,
        repetition: float = 0.0,
        official_repetition: bool = False,
        limit: int | None = None,
        num_workers: int = 0,
    ) -> None:
        super().__init__(root, batch_size, seed, num_workers)
        if views not in (2, 3):
            raise ConfigError(f"data.views must be 2 or 3, got {views}.")
        if official_repetition and not repetition:
            raise ValueError("official_repetition has no effect without repetition; set that, too.")
        self.path = path
        self.num_views = views
        self.repetition = Repetition(repetition, seed, official_repetition) if repetition else None
        self.limit = limit

    @property
    def views(self) -> tuple[View, ...]:
        """The same sentence as often as there are views."""
        augmentations = (None, self.repetition, None)[: self.num_views]
        return tuple(View(COLUMNS[0], augmentation) for augmentation in augmentations)

    def load_train(self) -> Dataset:
        """The sentences, in file order."""
        path = self.find(self.path, "wiki1m_for_simcse.txt", "unsup/sentences.txt")
        lines = read_lines(path)
        texts = [sentence(line, path, number) for number, line in enumerate(lines, start=1) if line.strip()]
        dropped = {"empty line": len(lines) - len(texts)}
        table, dropped["data.limit"] = sample_rows(make_table({COLUMNS[0]: texts}), self.limit)
        self.counts.append(SourceCount(path.name, len(lines), dropped))
        return table
