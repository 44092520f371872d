"""Curves of the losses on the documentation site: their numbers by hand, and the drawings."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import loss_curves
import numpy as np
import pytest

SCORES, POSITIVES, HEADS = ("pearson", "cosent", "cosine_mse"), ("infonce", "energy"), ("l1", "smooth_k2")


def test_pearson_by_hand() -> None:
    found = loss_curves.curves("pearson")
    gold = np.linspace(0, 5, loss_curves.BATCH - 1)
    cosines = 0.1 + 0.8 * gold / 5
    for score in (0.0, 2.5, 5.0):
        for place in (0, 30, -1):
            r = np.corrcoef([found.x[place], *cosines], [score, *gold])[0, 1]
            assert found.values[f"gold {score:g}"][place] == pytest.approx(1 - r, abs=1e-6)


def test_infonce_by_hand() -> None:
    found = loss_curves.curves("infonce")
    own, others, negative, temperature = 0.5, 0.7, 0.2, 0.05
    place = int(np.abs(found.x - own).argmin())
    hard = max(negative, loss_curves.HARD_NEGATIVE)

    def one(positive: float) -> float:
        negatives = (2 * loss_curves.BATCH - 2) * np.exp(negative / temperature) + np.exp(hard / temperature)
        return float(np.log(np.exp(positive / temperature) + negatives) - positive / temperature)

    expected = (one(found.x[place]) + (loss_curves.BATCH - 1) * one(others)) / loss_curves.BATCH
    assert found.values["negatives 0.2"][place] == pytest.approx(expected, rel=1e-6)


def test_l1_by_hand() -> None:
    found = loss_curves.curves("l1")
    for gold in (0.0, 2.5, 5.0):
        np.testing.assert_allclose(found.values[f"gold {gold:g}"], np.abs(found.x - gold), atol=1e-12)


@pytest.mark.parametrize("name", [*SCORES, *POSITIVES, *HEADS])
def test_drawings(name: str) -> None:
    found = loss_curves.curves(name)
    root = ET.fromstring(loss_curves.draw(found))  # made here
    space = "{http://www.w3.org/2000/svg}"
    lines = root.findall(f"{space}polyline")
    assert len(lines) == len(found.values) == 3
    for line, values in zip(lines, found.values.values(), strict=True):
        points = np.array([point.split(",") for point in line.attrib["points"].split()], dtype=float)
        assert (np.diff(points[:, 0]) > 0).all()
        assert points[:, 1].argmin() == values.argmax()  # the axis points down
        assert (points >= 0).all()
        assert (points <= [loss_curves.WIDTH, loss_curves.HEIGHT]).all()
    texts = [element.text for element in root.findall(f"{space}text")]
    assert found.axis in texts
    assert set(found.values) <= set(texts)
