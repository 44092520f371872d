from __future__ import annotations

import pytest

from sts_lightning.papers.phases import PeakDetector, find_phases


def passed(values: list[float], patience: int = 2, margin: float = 0.0) -> list[bool]:
    detector = PeakDetector(patience, margin)
    return [detector.update(value) for value in values]


def test_peak_needs_patience() -> None:
    assert passed([1, 3, 2, 3, 2, 2, 9]) == [False, False, False, False, False, True, True]


def test_a_small_dip_is_within_the_margin() -> None:
    assert not any(passed([100, 99.5, 99.2, 99.1], margin=0.01))
    assert passed([100, 98, 97], margin=0.01)[-1]


def test_a_rising_curve_has_no_peak() -> None:
    assert not any(passed([float(value) for value in range(50)]))


def test_goes_on_from_its_state() -> None:
    values = [1.0, 5, 4, 6, 5, 5, 5, 4]
    for cut in range(len(values)):
        first, second = PeakDetector(2, 0.0), PeakDetector(2, 0.0)
        head = [first.update(value) for value in values[:cut]]
        second.load_state_dict(first.state_dict())
        assert head + [second.update(value) for value in values[cut:]] == passed(values)


def test_phases_of_a_run() -> None:
    steps = [0, 5, 10, 15, 20, 25, 30]
    ranks = [10.0, 20, 30, 25, 20, 15, 14]
    scores = [50.0, 60, 70, 75, 80, 85, 60]
    phases = find_phases(steps, ranks, scores)
    assert (phases.boundary, phases.end) == (10, 25)
    assert phases.correlation1 == pytest.approx(1.0)
    assert phases.correlation2 == pytest.approx(-1.0)


def test_short_phases_have_no_correlation() -> None:
    phases = find_phases([0, 5, 10], [3.0, 2, 1], [1.0, 2, 3])
    assert phases.correlation1 is None
    assert phases.correlation2 == pytest.approx(-1.0)
    assert find_phases([0], [1.0], [1.0]).end == 0


def test_refuses() -> None:
    with pytest.raises(ValueError, match="same length"):
        find_phases([0, 1], [1.0], [1.0])
    with pytest.raises(ValueError, match="patience"):
        PeakDetector(0)
    with pytest.raises(ValueError, match="margin"):
        PeakDetector(1, 1.0)
