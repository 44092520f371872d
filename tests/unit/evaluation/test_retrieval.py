"""Scores of rankings against sentence-transformers, a slow NumPy version, and by hand."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch

from sts_lightning.core.errors import TrainingError
from sts_lightning.data.ranking import Ranking, make_ranking
from sts_lightning.evaluation.dev_scores import ranking_entry
from sts_lightning.evaluation.retrieval import (
    BLOCK,
    encode_ranking,
    first_places,
    mean_scores,
    print_rankings,
    ranking_cells,
    score_queries,
)

NONE = np.zeros((0, 3), dtype=np.int64)

NAMES = {"accuracy@1": ("accuracy@k", 1), "recall@10": ("recall@k", 10), "mrr@10": ("mrr@k", 10)}
NAMES["ndcg@10"] = ("ndcg@k", 10)


def random_ranking(candidates: int, queries: int = 40, seed: int = 0) -> tuple[Ranking, Any, Any]:
    """Coarse vectors, so that many cosines are equal; one to twelve right candidates, the last ones rarely.

    Each is a row of a few values of one length, so that equal cosines are equal in every order of addition.
    """
    rng = np.random.default_rng(seed)
    axes = np.concatenate([np.eye(8), -np.eye(8)]).astype(np.float32)
    signs = rng.choice([-1.0, 1.0], size=(queries, 4)).astype(np.float32)
    vectors = np.zeros((queries, 8), dtype=np.float32)
    for row in range(queries):
        vectors[row, rng.permutation(8)[:4]] = signs[row] / 2
    found = axes[rng.integers(16, size=candidates)]
    most = min(12, candidates)
    right = [
        sorted(rng.permutation(candidates)[: rng.integers(1, most + 1)].tolist()) for _ in range(queries)
    ]
    triplets = [(row, places[0], int(rng.integers(candidates))) for row, places in enumerate(right)]
    triplets = [each for each in triplets if each[2] not in right[each[0]]][::2]
    ranking = Ranking(
        "dev",
        [f"query {row}" for row in range(queries)],
        [f"text {place}" for place in range(candidates)],
        right,
        np.array(triplets, dtype=np.int64).reshape(-1, 3),
    )
    return ranking, vectors, found


def slow_scores(ranking: Ranking, queries: Any, candidates: Any) -> list[dict[str, float]]:
    """The definitions, one query and one candidate after another."""
    found = []
    for row, query in enumerate(queries):
        left = [place for place, text in enumerate(ranking.candidates) if text != ranking.queries[row]]
        left += [place for place in ranking.relevant[row] if place not in left]
        norms = [
            np.linalg.norm(query) * np.linalg.norm(candidates[place]) for place in range(len(candidates))
        ]
        cosine = {place: round(float(query @ candidates[place] / norms[place]), 6) for place in left}
        order = sorted(left, key=lambda place: (-cosine[place], place))[:10]
        ranks = [rank for rank, place in enumerate(order, start=1) if place in ranking.relevant[row]]
        best = range(1, 1 + min(10, len(ranking.relevant[row])))
        found.append(
            {
                "accuracy@1": float(ranks[:1] == [1]),
                "recall@10": len(ranks) / len(ranking.relevant[row]),
                "mrr@10": 1 / ranks[0] if ranks else 0.0,
                "ndcg@10": sum(1 / np.log2(r + 1) for r in ranks) / sum(1 / np.log2(r + 1) for r in best),
            }
        )
    return found


@pytest.mark.parametrize("candidates", [4, 9, 10, 11, 300])
def test_equal_to_sentence_transformers(candidates: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from sentence_transformers.evaluation import InformationRetrievalEvaluator
    ranking, queries, found = random_ranking(candidates)
    names = [f"d{place:05d}" for place in range(candidates)]  # in their order ours and that of ties
    theirs = InformationRetrievalEvaluator(
        {f"q{row}": text for row, text in enumerate(ranking.queries)},
        dict(zip(names, ranking.candidates, strict=True)),
        {f"q{row}": {names[place] for place in right} for row, right in enumerate(ranking.relevant)},
    )
    cosines = queries @ found.T
    hits = [
        [{"corpus_id": name, "score": float(score)} for name, score in zip(names, row, strict=True)]
        for row in cosines
    ]
    expected = theirs.compute_metrics(hits)
    ours = mean_scores(score_queries(ranking, queries, found))
    for name, (key, cut) in NAMES.items():
        assert ours[name] / 100 == pytest.approx(expected[key][cut], abs=1e-6), name
    assert len(np.unique(cosines[0])) < 4  # ties


def test_equal_to_the_whole_evaluator_of_sentence_transformers() -> None:
    """Vectors, similarities and their sorting are its own, too; they come from a stand-in for a model."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from sentence_transformers import SentenceTransformer, SimilarityFunction
        from sentence_transformers.evaluation import InformationRetrievalEvaluator, TripletEvaluator
    rng = np.random.default_rng(1)
    ranking, _, _ = random_ranking(200)
    texts = [*ranking.queries, *ranking.candidates]
    vectors = dict(zip(texts, rng.normal(size=(len(texts), 16)).astype(np.float32), strict=True))

    class StandIn(SentenceTransformer):
        def __init__(self) -> None:
            super().__init__(modules=[torch.nn.Identity()])
            self.similarity_fn_name = SimilarityFunction.COSINE

        def encode(self, inputs: Any, *args: Any, **settings: Any) -> Any:

            found = np.stack([vectors[text] for text in inputs])
            return torch.from_numpy(found) if settings.get("convert_to_tensor") else found

    model = StandIn()
    retrieval = InformationRetrievalEvaluator(
        dict(zip(map(str, range(40)), ranking.queries, strict=True)),
        {f"{place:05d}": text for place, text in enumerate(ranking.candidates)},
        {str(row): {f"{place:05d}" for place in right} for row, right in enumerate(ranking.relevant)},
        write_csv=False,
    )
    expected = retrieval(model)
    values = score_queries(
        ranking, *(np.stack([vectors[text] for text in part]) for _, part in ranking.texts())
    )
    ours = mean_scores(values)
    for name in NAMES:
        key = f"cosine_{name}"
        assert ours[name] / 100 == pytest.approx(expected[key], abs=1e-6), name
    columns = [
        [ranking.queries[row] for row in ranking.triplets[:, 0]],
        *([ranking.candidates[place] for place in ranking.triplets[:, column]] for column in (1, 2)),
    ]
    accuracy = TripletEvaluator(*columns, write_csv=False)(model)["cosine_accuracy"]
    assert len(np.unique(ranking.triplets[:, 0])) == len(ranking.triplets)  # else means of means differ
    assert ours["triplets"] / 100 == pytest.approx(accuracy, abs=1e-6)
    assert np.isnan(values["triplets"]).any()  # queries without triplets


@pytest.mark.parametrize("block", [BLOCK, 1])
def test_equal_to_the_definitions_one_by_one(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sts_lightning.evaluation.retrieval.BLOCK", block)
    ranking, queries, candidates = random_ranking(50, seed=3)
    texts = list(ranking.candidates)
    texts[:10] = ranking.queries[:10]  # right for some of them, left out for the others
    ranking = Ranking("dev", ranking.queries, texts, ranking.relevant, NONE)
    found = score_queries(ranking, queries, candidates)
    assert set(found) == set(NAMES)
    for row, expected in enumerate(slow_scores(ranking, queries, candidates)):
        for name, value in expected.items():
            assert found[name][row] == pytest.approx(value, abs=1e-9), (row, name)


def test_a_query_does_not_rank_itself() -> None:
    """In another case, too; unless it is an answer to itself."""
    ranking = make_ranking("dev", [("How?", ["so"], []), ("same", ["same"], [])], ["HOW?", "what"])
    assert list(ranking.candidates) == ["HOW?", "what", "so", "same"]  # as in the data
    assert ranking.left_out == [[0], []]
    vectors = np.array([[1.0, 0], [-1, 0], [0.9, 0.1], [0, 1]])
    found = score_queries(ranking, np.array([[1.0, 0.1], [0, 1]]), vectors)
    assert found["mrr@10"].tolist() == [1.0, 1.0]


def test_of_equal_cosines_the_first_is_first_and_zero_vectors_have_none() -> None:
    assert first_places(np.array([1.0, 3, 3, 2, 3]), 2).tolist() == [1, 2]
    assert first_places(np.array([1.0, 3]), 10).tolist() == [1, 0]
    ranking = Ranking("dev", ["q"], ["a", "b", "c"], [[2]], np.array([[0, 2, 0]]))
    found = score_queries(ranking, np.zeros((1, 2)), np.ones((3, 2)))
    assert found["mrr@10"].tolist() == [pytest.approx(1 / 3)]
    assert found["triplets"].tolist() == [0.0]  # equal is not higher


def test_triplets_of_a_query_are_averaged_first() -> None:
    rows = [("q", ["a"], ["b", "c", "d"]), ("r", ["a"], []), ("s", ["b"], ["c"])]
    ranking = make_ranking("dev", rows)
    where = {text: place for place, text in enumerate(ranking.candidates)}
    vectors = np.zeros((4, 2))
    for text, angle in {"a": 0.0, "b": 0.5, "c": 1.0, "d": -0.1}.items():
        vectors[where[text]] = np.cos(angle), np.sin(angle)
    queries = np.array([[np.cos(x), np.sin(x)] for x in (-0.2, 0.0, 0.9)])
    values = score_queries(ranking, queries, vectors)
    np.testing.assert_allclose(values["triplets"], [2 / 3, np.nan, 0.0])
    assert mean_scores(values)["triplets"] == pytest.approx(100 / 3)


def test_vectors_have_to_be_finite() -> None:
    ranking = make_ranking("dev", [("q", ["a"], [])])
    with pytest.raises(TrainingError, match="the vectors of 1 of 1 sentences are NaN"):
        encode_ranking(lambda texts, prompt: np.full((len(texts), 2), np.nan), ranking)


def test_each_role_is_encoded_as_such() -> None:
    ranking = make_ranking("dev", [("q", ["a"], [])], ["b"])
    asked: list[tuple[list[str], str]] = []

    def encode(texts: Any, prompt: str) -> Any:
        asked.append((list(texts), prompt))
        return np.ones((len(texts), 2))

    encode_ranking(encode, ranking)
    assert asked == [(["q"], "query"), (["b", "a"], "document")]


def test_tables(capsys: pytest.CaptureFixture[str]) -> None:
    ranking, queries, candidates = random_ranking(50)
    entry = ranking_entry(score_queries(ranking, queries, candidates), ranking)
    assert (entry["queries"], entry["candidates"]) == (40, 50)
    cells = ranking_cells({name: value for name, value in entry.items() if name != "triplets"})
    assert cells == [*(f"{entry[name]:.2f}" for name in NAMES), "-", "40", "50"]
    print_rankings({"untuned": {"mrr@10": 12.5}, "tuned": entry})
    printed = capsys.readouterr().out
    assert "MRR@10" in printed
    assert "40 of 50" in printed
    assert "12.50" in printed
    assert f"{entry['mrr@10']:.2f}" in printed
