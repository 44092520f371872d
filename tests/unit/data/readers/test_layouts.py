"""Files as trainers write them, with invented sentences, and what is read of them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from sts_lightning.core.errors import DataError
from sts_lightning.data.readers.layouts import Layout, read_labeled, read_texts, recognise

OVEN, STOVE, RAIN = "Is the oven hot?", "The stove is warm.", "It will rain."
LOST, FOUND, SNOW = "I lost my key.", "My key is gone.", "Snow fell."


def user(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


def write(path: Path, records: list[dict[str, Any]]) -> Path:
    """Write records in the format that the name tells, with pandas or the standard library."""
    table = pd.DataFrame(records)
    end = path.name.removesuffix(".gz").rpartition(".")[2]
    if end == "parquet":
        table.to_parquet(path)
    elif end == "jsonl":
        text = "".join(json.dumps(record) + "\n" for record in records)
        path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    else:
        table.to_csv(path, index=False, sep="\t" if end == "tsv" else ",")
    return path


def rows_of(path: Path, layout: Layout) -> list[tuple[str, list[str], list[str]]]:
    return [
        (anchor, [*positives], [*negatives]) for anchor, positives, negatives in read_texts(path, layout, "x")
    ]


FLAG = [
    {
        "query": OVEN,
        "pos": [STOVE, "Yes."],
        "neg": [RAIN],
        "pos_scores": [1, 0.9],
        "neg_scores": [0.1],
        "id": 3,
    },
    {"query": LOST, "pos": [FOUND], "neg": [], "pos_scores": [1], "neg_scores": [], "id": 4},
]
BOTH = [("first", OVEN, [STOVE], [RAIN]), ("second", LOST, [FOUND], [SNOW])]
ONE_EACH = [(OVEN, [STOVE], [RAIN]), (LOST, [FOUND], [SNOW])]
UNEVEN = [(OVEN, [STOVE, "Yes."], [RAIN]), (LOST, [FOUND], [])]

FRAMEWORKS: list[tuple[str, list[dict[str, Any]], str, tuple[str, ...], bool, str, list[Any] | None]] = [
    (
        "flag.jsonl",
        FLAG,
        "rows",
        ("query", "pos", "neg"),
        True,
        "query is the anchor, pos the positives, neg the negatives (FlagEmbedding); "
        "left out: pos_scores, neg_scores, id",
        UNEVEN,
    ),
    ("flag.parquet", FLAG, "rows", ("query", "pos", "neg"), True, "(FlagEmbedding)", UNEVEN),
    (
        "prompted.jsonl.gz",
        [{"query": OVEN, "pos": [STOVE], "neg": [RAIN], "prompt": "Find it: ", "type": "normal"}],
        "rows",
        ("query", "pos", "neg"),
        True,
        "left out: prompt, type; the prompts are not read: give one for queries with "
        "'prompt.query=\"Find it: \"'",
        ONE_EACH[:1],
    ),
    (
        "swift_old.jsonl",
        [
            {"query": OVEN, "response": STOVE, "rejected_response": [RAIN, SNOW], "label": 1},
            {"query": LOST, "response": FOUND},
        ],
        "rows",
        ("query", "response", "rejected_response"),
        True,
        "query is the anchor, response the positive, rejected_response the negatives (ms-swift); "
        "left out: label",
        [(OVEN, [STOVE], [RAIN, SNOW]), (LOST, [FOUND], [])],
    ),
    (
        "swift_scored.jsonl",
        [{"query": OVEN, "response": STOVE, "label": 0.8}, {"query": LOST, "response": RAIN, "label": 0}],
        "scored",
        ("query", "response", "label"),
        False,
        "query and response are the texts, label the score (ms-swift)",
        None,
    ),
    (
        "swift.jsonl",
        [
            {
                "messages": [{"role": "system", "content": "Answer."}, *user(OVEN)],
                "positive_messages": [user(STOVE)],
                "negative_messages": [user(RAIN), [*user("Is it?"), {"role": "assistant", "content": "No."}]],
            },
            {"messages": user(LOST), "positive_messages": [user(FOUND)]},
        ],
        "rows",
        ("messages", "positive_messages", "negative_messages"),
        True,
        "(ms-swift); system messages are not read: give one for queries with 'prompt.query=\"Answer.\"'",
        [(OVEN, [STOVE], [RAIN, "Is it?\nNo."]), (LOST, [FOUND], [])],
    ),
    (
        "automodel.jsonl",
        [
            {"question": OVEN, "pos_doc": [STOVE, "Yes."], "neg_doc": [RAIN]},
            {"question": LOST, "pos_doc": FOUND, "neg_doc": []},
        ],
        "rows",
        ("question", "pos_doc", "neg_doc"),
        True,
        "(NeMo AutoModel)",
        UNEVEN,
    ),
    (
        "angle_scored.tsv",
        [{"text1": OVEN, "text2": STOVE, "label": 0.5}, {"text1": LOST, "text2": FOUND, "label": 0.75}],
        "scored",
        ("text1", "text2", "label"),
        False,
        "text1 and text2 are the texts, label the score",
        None,
    ),
    (
        "angle.csv.gz",
        [{"text": a, "positive": p[0], "negative": n[0]} for _, a, p, n in BOTH],
        "rows",
        ("text", "positive", "negative"),
        False,
        "text is the anchor, positive the positive, negative the negative",
        ONE_EACH,
    ),
    (
        "st.csv",
        [{"eins": a, "zwei": p[0], "drei": n[0]} for _, a, p, n in BOTH],
        "rows",
        ("eins", "zwei", "drei"),
        False,
        "eins is the anchor, zwei the positive, drei the negative",
        ONE_EACH,
    ),
    (
        "st_mined.parquet",
        [{"anchor": a, "positive": p[0], "negative_1": n[0], "negative_2": "No."} for _, a, p, n in BOTH],
        "rows",
        ("anchor", "positive", "negative_1", "negative_2"),
        False,
        "negative_1, negative_2 the negatives",
        [(anchor, positives, [*negatives, "No."]) for anchor, positives, negatives in ONE_EACH],
    ),
    (
        "st_fewer.jsonl",
        [
            {"anchor": OVEN, "positive": STOVE, "negative_1": RAIN, "negative_2": SNOW},
            {"anchor": LOST, "positive": FOUND, "negative_1": SNOW, "negative_2": None},
        ],
        "rows",
        ("anchor", "positive", "negative_1", "negative_2"),
        True,
        "negative_1, negative_2 the negatives",
        [(OVEN, [STOVE], [RAIN, SNOW]), (LOST, [FOUND], [SNOW])],
    ),
    (
        "tevatron.jsonl",
        [
            {
                "query_id": "7",
                "query": OVEN,
                "positive_passages": [{"docid": "1", "title": "Stove.", "text": "It is warm."}],
                "negative_passages": [{"docid": "2", "title": "", "text": RAIN}],
            }
        ],
        "rows",
        ("query", "positive_passages", "negative_passages"),
        True,
        "(tevatron)",
        [(OVEN, ["Stove. It is warm."], [RAIN])],
    ),
    (
        "setfit.jsonl",
        [{"text": text, "label": index, "label_text": "x"} for index, text in enumerate([OVEN, LOST, SNOW])],
        "classes",
        ("text", "label"),
        False,
        "text is the text, label its class; left out: label_text",
        None,
    ),
]


@pytest.mark.parametrize(
    ("name", "records", "kind", "columns", "lists", "note", "rows"),
    FRAMEWORKS,
    ids=lambda value: str(value)[:18],
)
def test_files_of_other_trainers(
    name: str,
    records: list[dict[str, Any]],
    kind: str,
    columns: tuple[str, ...],
    lists: bool,
    note: str,
    rows: list[Any] | None,
    tmp_path: Path,
) -> None:
    path = write(tmp_path / name, records)
    layout = recognise(path)
    assert (layout.kind, layout.columns, layout.lists) == (kind, columns, lists)
    assert note in layout.note
    if rows is not None:
        assert rows_of(path, layout) == rows
        assert rows_of(path, recognise(path, columns)) == rows_of(path, layout)


ALIKE = {"question": [OVEN, LOST, SNOW], "answer": [STOVE, FOUND, RAIN]}


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        (ALIKE, ("rows", "question", "answer")),
        ({"answer": ALIKE["answer"], "question": ALIKE["question"]}, ("rows", "question", "answer")),
        ({"x": [1, 2, 3], "id": [5, 6, 7], **ALIKE}, ("rows", "question", "answer")),
        ({"title": ["a", "b", "c"], **ALIKE}, ("rows", "question", "answer")),
        (ALIKE | {"topic": ["a", "b", "b"], "source": ["x"] * 3}, ("rows", "question", "answer")),
        (ALIKE | {"wrong": [RAIN, RAIN, OVEN]}, ("rows", "question", "answer", "wrong")),
        ({"a": ALIKE["question"], "b": ALIKE["answer"]}, ("rows", "a", "b")),
        (ALIKE | {"similarity": [1, 0, 0.5]}, ("scored", "question", "answer", "similarity")),
        (ALIKE | {"score": [1, "high", 0]}, ("scored", "question", "answer", "score")),
        (ALIKE | {"label": [1, 0, 1]}, ("scored", "question", "answer", "label")),
        (ALIKE | {"genre": ["a", "b", "c"], "score": [1, 2, 0]}, ("scored", "question", "answer", "score")),
        ({"utterance": ALIKE["question"], "intent": ["a", "b", "a"]}, ("classes", "utterance", "intent")),
        ({"text": ALIKE["question"], "y": [0, 1, 1]}, ("classes", "text", "y")),
        ({"question": ALIKE["question"], "answer": [3, 4, 3]}, ("rows", "question", "answer")),
    ],
    ids=str,
)
def test_tables_of_any_trainer(
    table: dict[str, list[Any]], expected: tuple[str, ...], tmp_path: Path
) -> None:
    path = tmp_path / "a.csv"
    pd.DataFrame(table).to_csv(path, index=False)
    layout = recognise(path)
    assert (layout.kind, *layout.columns) == expected


ASKED = ["question", "answer"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "a.csv",
            "premise,hypothesis,label\na,b,entailment\n",
            r"loss=cosent data=classes_file 'data\.columns=\[",
        ),
        (
            "a.csv",
            "premise,hypothesis,label\na,b,0\nc,d,2\n",
            r"'label' is 0, 1 or 2, which may be scores or",
        ),
        (
            "a.csv",
            "question,context,answer\na,b,c\n",
            r"columns are 'question' \(texts\), .*data=triplets_file 'da",
        ),
        ("a.csv", "a,b,votes\nx,y,3\n", r"'votes' \(numbers\)\. Name them: "),
        ("a.csv", "a,b,c,d\nw,x,y,z\n", "cannot be told"),
        ("a.csv", "a,b,score\nx,y,good\n", "'score' does not hold numbers"),
        ("a.csv", "text\na\n", "cannot be told"),
        ("a.csv", "query,neg\na,b\n", "cannot be told"),
        ("a.csv", "text,row\na,1\nb,2\n", "cannot be told"),
        ("a.csv", "question,answer\n", "there are no rows"),
        ("a.csv", "a,b,5\nc,d,4\n", "line 1 seems to be data: 'a', 'b', '5'"),
        ("a.csv", "How do I open it?,You pull the handle.\nx,y\n", "line 1 seems to be data"),
        ("a.csv", "query,pos\nx,\"['a', 'b']\"\n", r"the values of 'pos' are lists, written as texts"),
        ("a.csv", "question,question\na,b\n", "'question' more than once"),
        ("a.csv", "question,answer\na\n", "line 2: expected 2 columns, found 1"),
        (
            "a.jsonl",
            '{"messages": [{"role": "user", "content": "a"}]}\n',
            "Put the text that answers a query into",
        ),
        ("a.jsonl", '{"query": "a", "positive_document_ids": ["1"]}\n', "Write the texts into the rows"),
        (
            "a.jsonl",
            '{"question": "a", "corpus_id": "c", "pos_doc": [{"id": "1"}]}\n',
            "'corpus_id' refers to",
        ),
        ("a.jsonl", '{"question": "a", "pos_doc": [{"id": "1"}]}\n', "'pos_doc' has ids of a corpus"),
    ],
)
def test_what_cannot_be_told_lists_the_columns(name: str, content: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(DataError, match=message):
        recognise(path)


@pytest.mark.parametrize(
    ("columns", "kind"),
    [
        (("text", "topic"), "classes"),
        (("text", "reply"), "rows"),
        (("text", "reply", "value"), "scored"),
        (("text", "reply", "topic"), "rows"),
    ],
)
def test_columns_that_are_named(columns: tuple[str, ...], kind: str, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("topic;value;reply;text\na;1,5;b;c\n")
    assert (recognise(path, columns).kind, recognise(path, columns).columns) == (kind, columns)


@pytest.mark.parametrize(
    ("header", "columns", "proposed"),
    [
        ("question,answer", ("anchor", "positive", "negative"), r"'data\.columns=\[question,answer\]'"),
        ("id,sentence_A,sentence_B,x", ("anchor", "positive"), r"'data\.columns=\[sentence_A,sentence_B\]'"),
        ("query,answer,neg 1", ("sent0", "sent1", "hard_neg"), r"'data\.columns=\[query,answer,\"neg 1\"\]'"),
        ("questoin,answer", ("question", "answer"), r"'data\.columns=\[questoin,answer\]'"),
    ],
)
def test_near_names_are_proposed(
    header: str, columns: tuple[str, ...], proposed: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"{header}\n" + "a,b,c,d\n"[: 2 * len(header.split(",")) - 1] + "\n")
    with pytest.raises(DataError, match=rf"no column named .* Near are: {proposed}\.$"):
        recognise(path, columns)


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"query": "a", "pos": ["b", 3], "neg": []}, "text 2 of 'pos' must be a string, not 3"),
        ({"query": "a", "pos": ["b"], "neg": ["c", "\u200b"]}, "text 2 of 'neg' has no visible character"),
        ({"query": "a", "pos": ["b"], "neg": [None]}, "text 1 of 'neg' is empty"),
        ({"query": "a", "pos": [], "neg": ["c"]}, "'pos' has no texts"),
        ({"query": "a", "pos": None, "neg": ["c"]}, "'pos' has no texts"),
        ({"query": ["a", "b"], "pos": ["b"]}, "'query' must be a string"),
        ({"query": " ", "pos": ["b"]}, "a sentence is empty"),
        ({"query": "a", "pos": ["b"], "neg": [["c"]]}, "text 1 of 'neg' must be a string"),
        ({"query": "a", "pos": ["b"], "neg": [{"id": 1}]}, "'neg' must be a string"),
        ({"query": "a", "pos": [[{"role": "system", "content": "b"}]]}, "'pos' has no message of a user"),
        ({"query": "a", "neg": ["c"]}, "no column named 'pos'; there are 'query', 'neg'"),
        (None, "not valid JSON"),
    ],
)
def test_a_broken_row_of_lists(record: dict[str, Any] | None, message: str, tmp_path: Path) -> None:
    good = json.dumps(FLAG[0])
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join([good, "{" if record is None else json.dumps(record), good]))
    with pytest.raises(DataError, match=rf"a\.jsonl, line 2: .*{message}"):
        rows_of(path, Layout("rows", ("query", "pos", "neg"), lists=True))


def test_all_broken_rows_are_reported_together(tmp_path: Path) -> None:
    records = [FLAG[0], FLAG[1] | {"pos": []}, FLAG[1], FLAG[1] | {"neg": [""]}]
    layout = Layout("rows", ("query", "pos", "neg"), lists=True)
    for name, place, lines in (("a.jsonl", "line 2", "line 4"), ("a.parquet", "row 1", "row 3")):
        path = write(tmp_path / name, records)
        with pytest.raises(DataError, match=rf"{name}, {place}: .* 1 more row with errors: {lines}\.$"):
            rows_of(path, layout)


@pytest.mark.parametrize("name", ["a.jsonl", "a.csv"])
def test_classes(name: str, tmp_path: Path) -> None:
    """A whole number is one class with and without .0, as pandas writes it in a column with gaps."""
    path = tmp_path / name
    table = pd.DataFrame({"text": [OVEN, LOST, SNOW], "label": ["1", "1.0", "warm "]})
    if name == "a.csv":
        table.to_csv(path, index=False)
    else:
        table.to_json(path, orient="records", lines=True)
    layout = recognise(path)
    assert read_labeled(path, layout, "x") == [(OVEN, "1"), (LOST, "1"), (SNOW, "warm")]
    path.write_text(path.read_text().replace("warm ", " "))
    with pytest.raises(DataError, match=rf"line {4 if name == 'a.csv' else 3}: the class 'label' is empty"):
        read_labeled(path, layout, "x")
