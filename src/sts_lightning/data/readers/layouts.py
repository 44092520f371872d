"""What the columns of a table are, of this and other trainers, and the rows of texts and classes in it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, NoReturn

from sts_lightning.core.errors import DataError
from sts_lightning.data.readers import column_names as usual
from sts_lightning.data.readers.column_names import (
    folded,
    is_aside,
    is_negative,
    listed,
    missing_columns,
    typed_columns,
)
from sts_lightning.data.readers.row_values import (
    is_blank,
    is_messages,
    is_number,
    is_whole,
    plain,
    sentence,
    text_of,
    without_point,
)
from sts_lightning.data.readers.tables import Source, has_fields, read_head, read_rows

Kind = Literal["scored", "rows", "classes"]
"""Two texts and a number; an anchor with positives and negatives; a text with its class."""

KINDS: dict[Kind, tuple[str, str]] = {
    "scored": ("scored pairs", "pairs_file"),
    "rows": ("rows of an anchor and what is similar to it", "triplets_file"),
    "classes": ("texts with classes", "labels_file"),
}
"""What a file of each kind has, and the choice of ``data`` that reads it."""


@dataclass(frozen=True)
class Layout:
    """What the columns of a file are.

    Attributes:
        kind: Kind of its rows.
        columns: Names: of the first text, the second and the score; of the anchor, the positives and any
            negatives; or of the text and the class.
        lists: Whether positives or negatives of a row may be lists of texts or of messages, or negatives
            may be missing.
        note: What was taken for what, for the log.
    """

    kind: Kind
    columns: tuple[str, ...]
    lists: bool = False
    note: str = ""


class TextRow(NamedTuple):
    """An anchor with one or more texts that answer it, and any number of texts that do not."""

    anchor: str
    positives: Sequence[str]
    negatives: Sequence[str]


FAMILIES = (
    ("FlagEmbedding", ("query",), "pos", "neg"),
    ("NeMo AutoModel", ("question", "query"), "pos_doc", "neg_doc"),
    ("ms-swift", ("query",), "response", "rejected_response"),
    ("ms-swift", ("messages",), "positive_messages", "negative_messages"),
    ("tevatron", ("query", "query_text"), "positive_passages", "negative_passages"),
)
"""Names of other trainers: of the anchor, of the positives and of the negatives, which may be missing."""

WORDS = ("label", "labels", "class", "gold_label", "target")
"""Names of a class of two texts; other classes, such as ``topic``, may stand beside a query and an answer."""

SAMPLE = 1000
"""Number of records by which a file is recognised."""

HINT = (
    "Name them: data=triplets_file 'data.columns=[QUERY,ANSWER]' (hard negatives after them), "
    "data=pairs_file 'data.columns=[FIRST,SECOND,SCORE]' for scored pairs, "
    "data=labels_file 'data.columns=[TEXT,CLASS]' for texts with classes."
)


def recognise(source: Source, columns: Sequence[str] | None = None) -> Layout:
    """Recognise what the columns of a table are, by their names and the first 1,000 records.

    Args:
        source: CSV, TSV, JSONL or Parquet file, perhaps compressed (``.gz``), or a split of the hub.
        columns: Names of the columns where the user gives them: text and class, two texts and a number, or
            anchor, positive and any negatives.

    Raises:
        DataError: The file cannot be read, a given column is missing, or what its columns are cannot be told.
    """
    names, records = read_head(source, SAMPLE)
    if not records:
        raise DataError("there are no rows.", str(source))
    fields = has_fields(source)
    if fields and (any(map(is_number, names)) or all(len(name.split()) > 3 for name in names)):
        raise DataError(
            f"line 1 seems to be data: {listed(names)}.",
            str(source),
            hint="Add a line with the names of the columns above it.",
        )
    sample = _Sample(source, names, records)
    if fields:
        sample.reject_written_lists()
    if columns:
        return sample.given(columns)
    return sample.of_family() or sample.by_roles()


@dataclass
class _Sample:
    """The first records of a file.

    Attributes:
        source: The table.
        names: Names of its columns.
        records: Values by name.
        kinds: Kind of each column: ``text``, ``list``, ``whole`` or ``number``; ``other`` for mixed ones.
    """

    source: Source
    names: list[str]
    records: list[dict[str, Any]]
    kinds: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        self.kinds = {name: self._kind(name) for name in self.names}

    def values(self, name: str) -> list[Any]:
        """Return the values of a column that are not empty."""
        found = [record.get(name) for record in self.records]
        return [
            value for value in found if value is not None and not (isinstance(value, str) and is_blank(value))
        ]

    def _kind(self, name: str) -> str:
        values = self.values(name)
        if any(isinstance(value, list | dict) for value in values):
            return "list"
        if not values or any(isinstance(value, bool) for value in values):
            return "other"
        written = all(isinstance(value, str) for value in values)
        if written and (is_negative(name) or folded(name) in (*usual.ANCHORS, *usual.POSITIVES)):
            return "text"  # an answer may be a number
        texts = [str(value) for value in values]
        if sum(map(is_number, texts)) > len(texts) / 2:  # a row may be wrong, which its reader then says
            return "whole" if all(map(is_whole, texts)) else "number"
        return "text" if written else "other"

    def is_number(self, name: str) -> bool:
        """Return whether a column holds numbers."""
        return self.kinds[name] in ("whole", "number")

    def error(self, message: str, hint: str = HINT) -> NoReturn:
        """Raise an error that lists the columns."""
        word = {"text": "texts", "list": "lists", "whole": "numbers", "number": "numbers"}
        listed = [f"{name!r} ({word.get(self.kinds[name], 'other values')})" for name in self.names]
        shown = ", ".join(listed)
        shown = shown if len(shown) <= 400 else f"{shown[:397]}..."
        raise DataError(f"{message}; the columns are {shown}.", str(self.source), key="path", hint=hint)

    def reject_written_lists(self) -> None:
        """Reject a table whose lists are written as texts, as pandas does."""
        for name in self.names:
            values = self.values(name)
            if values and all(value.startswith("[") and value.endswith("]") for value in values):
                try:
                    written = isinstance(ast.literal_eval(values[0]), list)
                except (ValueError, SyntaxError):
                    continue
                if written:
                    raise DataError(
                        f"the values of {name!r} are lists, written as texts: {values[0][:40]}.",
                        str(self.source),
                        hint="Save the table as JSONL or Parquet, which have lists: in pandas "
                        "`table.to_json('NAME.jsonl', orient='records', lines=True)`.",
                    )

    def given(self, columns: Sequence[str]) -> Layout:
        """Return the layout of columns that the user names."""
        missing = [name for name in columns if name not in self.names]
        if missing:
            message, hint = missing_columns(missing, columns, self.names, (), "data.columns")
            raise DataError(message, str(self.source), key="data.columns", hint=hint)
        last = columns[-1]
        if len(columns) == 3 and self.is_number(last):
            return self.scored(*columns)
        if len(columns) == 2 and (self.is_number(last) or folded(last) in usual.CLASSES):
            return self.classes(*columns)
        return self.rows(*columns)

    def scored(self, first: str, second: str, score: str, beside: str = "") -> Layout:
        """Return the layout of two texts and a number."""
        typed = typed_columns((first, second, score), "data.columns")
        values = {without_point(str(value)) for value in self.values(score)}
        if (
            folded(score) in WORDS
            and beside != "ms-swift"
            and "2" in values
            and values <= {"-1", "0", "1", "2"}
        ):
            self.error(
                f"{score!r} is 0, 1 or 2, which may be scores or the classes of NLI",
                f"For scores: data=pairs_file {typed}; for classes: data=classes_file {typed} "
                "'data.classes=[...]', the least similar first.",
            )
        note = f"{first} and {second} are the texts, {score} the score{f' ({beside})' if beside else ''}"
        return Layout("scored", (first, second, score), note=note + self._left_out(first, second, score))

    def classes(self, text: str, label: str) -> Layout:
        """Return the layout of a text and its class."""
        note = f"{text} is the text, {label} its class"
        return Layout("classes", (text, label), note=note + self._left_out(text, label))

    def rows(self, anchor: str, positive: str, *negatives: str, beside: str = "") -> Layout:
        """Return the layout of an anchor, its positives and its negatives."""
        names = (anchor, positive, *negatives)
        fewer = not has_fields(self.source) and any(
            record.get(name) is None for name in negatives for record in self.records
        )
        many = fewer or any(
            isinstance(value, list) and not is_messages(value)
            for name in names[1:]
            for value in self.values(name)
        )
        said = [f"{anchor} is the anchor, {positive} the positive{'s' * (self.kinds[positive] == 'list')}"]
        if negatives:
            plural = len(negatives) > 1 or self.kinds[negatives[0]] == "list"
            said.append(f"{', '.join(negatives)} the negative{'s' * plural}")
        note = ", ".join(said) + (f" ({beside})" if beside else "")
        return Layout("rows", names, many, note + self._left_out(*names))

    def of_family(self) -> Layout | None:
        """Return the layout of a file of another trainer, None if its names are not those of one."""
        by_name = {folded(name): name for name in reversed(self.names)}
        ids = [by_name[name] for name in ("positive_document_ids", "corpus_id") if name in by_name]
        inline = 'Write the texts into the rows: {"query": ..., "pos": [...], "neg": [...]}.'
        if ids:
            self.error(f"{ids[0]!r} refers to texts of a corpus by their ids, which is not read", inline)
        if "messages" in by_name and "positive_messages" not in by_name:
            self.error(
                "'messages' are conversations, and what answers them is missing",
                "Put the text that answers a query into 'positive_messages'.",
            )
        for framework, anchors, positives, negatives in FAMILIES:
            anchor = next((by_name[name] for name in anchors if name in by_name), None)
            if anchor is None or positives not in by_name:
                continue
            texts = (anchor, by_name[positives])
            for value in self.values(texts[1])[:1]:
                first = value[0] if isinstance(value, list) and value else value
                if isinstance(first, int) or (
                    isinstance(first, dict) and not first.keys() & {"text", "role"}
                ):
                    self.error(
                        f"{texts[1]!r} has ids of a corpus, which is not read, in place of texts", inline
                    )
            label = by_name.get("label")
            if negatives in by_name:
                return self.rows(*texts, by_name[negatives], beside=framework)
            if framework == "ms-swift" and label is not None and self.is_number(label):
                return self.scored(*texts, label, beside=framework)
            return self.rows(*texts, beside=framework)
        return None

    def by_roles(self) -> Layout:
        """Return the layout of a file with columns of any names.

        Raises:
            DataError: It cannot be told.
        """
        kinds = self.kinds
        named = [name for name in self.names if folded(name) in usual.CLASSES]
        texts = [
            name
            for name in self.names
            if kinds[name] in ("text", "list")
            and not is_aside(name)
            and folded(name) not in (*usual.CLASSES, *usual.SCORES)
        ]
        if len(texts) == 1 and kinds[texts[0]] == "text":
            labels = [name for name in named if kinds[name] in ("text", "whole", "number")]
            labels.sort(key=lambda name: usual.CLASSES.index(folded(name)))
            whole = [name for name in self.names if kinds[name] == "whole" and not is_aside(name)]
            if not labels and len(whole) == 1 and len(set(self.values(whole[0]))) < len(self.records):
                labels = whole
            if labels:
                return self.classes(texts[0], labels[0])
        negatives = [name for name in texts if is_negative(name)]
        others = [name for name in texts if not is_negative(name)]
        if len(others) < 2:
            self.error("what its columns are cannot be told")
        anchors = [name for name in others if folded(name) in usual.ANCHORS]
        positives = [name for name in others if folded(name) in usual.POSITIVES]
        known = len(anchors) == len(positives) == 1
        pair = (anchors[0], positives[0]) if known else (others[0], others[1])
        rest = [name for name in others if name not in pair]
        scores = [name for name in self.names if self.is_number(name) and folded(name) in usual.SCORES]
        scores.sort(key=lambda name: usual.SCORES.index(folded(name)))
        wrong = [
            name for name in self.names if folded(name) in usual.SCORES and name not in (*scores, *named)
        ]
        if wrong:
            self.error(f"{wrong[0]!r} does not hold numbers")
        if not negatives and (known or not rest) and scores:
            return self.scored(*pair, scores[0])
        words = [name for name in named if folded(name) in WORDS and name not in scores]
        if words:
            self.error(
                f"two texts and {words[0]!r}, which is no number, may be pairs with a class",
                f"For classes, the least similar first: loss=cosent data=classes_file "
                f"{typed_columns((*pair, words[0]), 'data.columns')} 'data.classes=[...]'. For rows "
                f"without it: data=triplets_file {typed_columns(pair, 'data.columns')}.",
            )
        numbers = [
            name
            for name in self.names
            if self.is_number(name) and not is_aside(name) and name not in (*scores, *named)
        ]
        if not known and (numbers or len(rest) > 1 or (rest and negatives)):
            self.error("what its columns are cannot be told")
        if len(rest) == 1 and not negatives and others == [*pair, *rest]:
            if folded(rest[0]) not in (*usual.ANCHORS, *usual.POSITIVES):
                negatives = rest
            elif not known:
                self.error("what its columns are cannot be told")
        return self.rows(*pair, *negatives)

    def _left_out(self, *used: str) -> str:
        """Return what of the file is not read, for the note."""
        others = [name for name in self.names if name not in used and self.values(name)]
        note = f"; left out: {', '.join(others)}" if others else ""
        prompts = {
            str(value)
            for name in others
            if folded(name) in ("prompt", "instruction")
            for value in self.values(name)
        }
        systems = {
            message["content"]
            for name in used[:1]
            for value in self.values(name)
            if is_messages(value)
            for message in value
            if message["role"] == "system"
        }
        if not prompts | systems:
            return note
        word = "the prompts are" if prompts else "system messages are"
        [text, *more] = sorted(prompts | systems)
        shown = "..." if more or not isinstance(text, str) else text
        return f"{note}; {word} not read: give one for queries with 'prompt.query=\"{shown}\"'"


def read_texts(
    source: Source, layout: Layout, setting: str, text: Callable[[str], str] = sentence
) -> Iterator[TextRow]:
    """Read the rows of a table whose layout is of the kind ``rows``.

    Args:
        source: The table.
        layout: Its layout.
        setting: What the user names the columns with, for errors.
        text: What a text becomes, and by which it is checked.

    Raises:
        DataError: The table cannot be read, a column is missing, rows are malformed, or there are none.
    """
    columns = layout.columns

    def parse(values: Sequence[Any]) -> TextRow:
        if layout.lists:
            return _row_of_lists(columns, values)
        anchor, positive, *negatives = map(text, values)
        return TextRow(anchor, [positive], negatives)

    optional = columns[2:] if layout.lists else ()
    rows = read_rows(source, columns, parse, optional=optional, setting=setting, lists=layout.lists)
    return (row for _, row in rows)


def _row_of_lists(columns: Sequence[str], values: Sequence[Any]) -> TextRow:
    """Return a row whose values are texts, messages, or lists of these."""
    anchor = sentence(text_of(plain(values[0], columns[0]), columns[0]))
    positives, *negatives = map(_texts, values[1:], columns[1:])
    if not positives:
        raise DataError(f"{columns[1]!r} has no texts.")
    return TextRow(anchor, positives, [text for of_column in negatives for text in of_column])


def _texts(value: Any, name: str) -> list[str]:
    if value is None:
        return []
    if is_messages(value) or not isinstance(value, list):
        return [sentence(_text(value, name))]
    texts = []
    for number, item in enumerate(value, start=1):
        what = f"text {number} of {name!r}"
        if item is not None and not isinstance(item, str | dict) and not is_messages(item):
            raise DataError(f"{what} must be a string, not {str(item)[:40]}.")
        texts.append(sentence(_text(item, name), what))
    return texts


def _text(value: Any, name: str) -> str:
    if isinstance(value, dict) and isinstance(value.get("text"), str):  # a passage, perhaps with a title
        title = value.get("title") or ""
        value = f"{title} {value['text']}".strip()
    return text_of(plain(value, name), name)


def read_labeled(source: Source, layout: Layout, setting: str) -> list[tuple[str, str]]:
    """Read the text and the class of each row of a table; see `read_texts`.

    A whole number is the same class with and without ``.0``.
    """
    name = layout.columns[1]

    def parse(values: Sequence[Any]) -> tuple[str, str]:
        text, label = values
        found = sentence(label, f"the class {name!r}").strip()
        return sentence(text), without_point(found)

    rows = read_rows(source, layout.columns, parse, numbers=[name], setting=setting)
    return [row for _, row in rows]
