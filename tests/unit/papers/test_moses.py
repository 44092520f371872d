from __future__ import annotations

import pytest

from sts_lightning.data.readers.sts_sets import is_prepared
from sts_lightning.papers.moses import prepare

# By hand, from the rules of Moses' tokenizer.perl as of November 2018 with -l en -no-escape.
SENTENCES = {
    "Two dogs ran, barking.": "two dogs ran , barking .",
    "It's Anna's; they don't mind!": "it 's anna 's ; they don 't mind !",
    'He paid $5,300 (about 4,900 euros) for "it".': 'he paid $ 5,300 ( about 4,900 euros ) for " it " .',
    "Wait... what?": "wait ... what ?",
    "Mr. Brown met Dr. Lee on Jan. 5 at 9 a.m.": "mr. brown met dr. lee on jan. 5 at 9 a.m .",
    "He left the U.S. in May.": "he left the u.s. in may .",
    "Read No. 7, not no. seven & <b>": "read no. 7 , not no. seven & < b >",
    "a well-known #tag @home": "a well-known # tag @ home",
    "in the 1990's": "in the 1990 's",
    "the end ...": "the end ...",
    "  many \t blanks  ": "many blanks",
    "A man walks": "a man walks",
}


@pytest.mark.parametrize("raw", SENTENCES)
def test_prepared_sentences_by_hand(raw: str) -> None:
    assert prepare(raw) == SENTENCES[raw]


def test_sick_keeps_its_case() -> None:
    assert prepare("A girl's hat is Red, not Blue", lower=False) == "A girl 's hat is Red , not Blue"


def test_a_prepared_file_is_recognised() -> None:
    raw, prepared = list(SENTENCES), list(SENTENCES.values())
    assert is_prepared(prepared)
    assert not is_prepared(raw)
    assert not is_prepared([text.lower() for text in raw])


@pytest.mark.parametrize(
    "raw", ["it runs (fast)", "he came, saw", "i know it's so", "they were running.", "A dog , a cat"]
)
def test_one_raw_sentence_tells_a_raw_file(raw: str) -> None:
    assert not is_prepared([*SENTENCES.values(), raw])


def test_a_file_without_punctuation_is_not_taken_for_a_prepared_one() -> None:
    assert not is_prepared(["a dog runs.", "a cat sleeps"])
    assert not is_prepared([])


def test_a_twice_prepared_sentence_and_one_of_an_older_moses_are_prepared() -> None:
    assert is_prepared(["anna ' s hat", "at 9 a.m."])


def test_sick_may_have_capitals() -> None:
    texts = ["A man 's hat is red", "Two dogs , running"]
    assert is_prepared(texts, lower=False)
    assert not is_prepared(texts)
