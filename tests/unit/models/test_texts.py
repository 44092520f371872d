"""What `encode` takes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sts_lightning.models.encoder import as_texts
from sts_lightning.testing.tiny_bert import tiny_bert


class Frame(list[str]):
    """Like a data frame: its elements are the names of its columns."""

    columns = ("sentence1", "sentence2")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("a b", "not one string"),
        (b"a b", "not one string"),
        ({"a": 1}, "not a dict"),
        ({"a", "b"}, "not a set"),
        (Frame(["sentence1", "sentence2"]), "not a Frame"),
        (None, "not iterable"),
        (["ok", None], "element 1 is None"),
        (["ok", float("nan")], "element 1 is nan"),
        ([("A man", "A dog")], r"element 0 is \('A man', 'A dog'\)"),
        ([["A man"], ["A dog"]], r"element 0 is \['A man'\]"),
        ([b"a"], "element 0 is b'a'"),
    ],
)
def test_what_is_no_list_of_sentences(given: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        tiny_bert().encode(given)


@pytest.mark.parametrize("given", [["a", "b"], ("a", "b"), np.array(["a", "b"]), (c for c in "ab")])
def test_anything_that_gives_texts_in_order(given: Any) -> None:
    assert as_texts(given) == ["a", "b"]
