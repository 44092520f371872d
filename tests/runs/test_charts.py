"""Charts, read back as XML."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

from sts_lightning.runs.charts import LONGEST_LABEL, STYLES, Estimate, Series, estimate_chart, line_chart


def points(chart: str) -> list[list[tuple[float, float]]]:
    """Places of the lines of a chart, in pixels."""
    lines = ET.fromstring(chart).iter("polyline")
    return [
        [(float(x), float(y)) for x, y in (pair.split(",") for pair in line.attrib["points"].split())]
        for line in lines
    ]


def axis(chart: str) -> dict[str, tuple[float, float]]:
    """Place of each number that is written on a chart."""
    texts = ET.fromstring(chart).iter("text")
    return {str(one.text): (float(one.attrib["x"]), float(one.attrib["y"])) for one in texts}


def test_lines_are_where_the_axes_say() -> None:
    chart = line_chart([Series("a & <b>", [[(0, 60.0), (100, 80.0), (200, 70.0)]])], "step", "score")
    ((first, second, third),) = points(chart)
    places = axis(chart)
    assert (first[0], second[0], third[0]) == (places["0"][0], places["100"][0], places["200"][0])
    text_height = 4  # the baseline of a number lies below the middle of its digits
    assert first[1] == pytest.approx(places["60"][1] - text_height, abs=0.11)
    assert second[1] == pytest.approx(places["80"][1] - text_height, abs=0.11)
    assert second[1] < third[1] < first[1]
    assert "a &amp; &lt;b&gt;" in chart


def test_series_differ_in_style_and_seeds_share_it() -> None:
    series = [Series(str(n), [[(0, n), (1, n + 1)]] * 2) for n in range(len(STYLES))]
    root = ET.fromstring(line_chart(series, "step", "score"))
    groups = [one for one in root.iter("g") if one.get("class") == "series"]
    assert len({(one.attrib["stroke"], one.attrib["stroke-dasharray"]) for one in groups}) == len(STYLES)
    assert [len(one.findall("polyline")) for one in groups] == [2] * len(STYLES)


def test_a_single_point_is_a_dot() -> None:
    chart = line_chart([Series("a", [[(5, 70.0)], []])], "step", "score")
    assert points(chart) == []
    assert len(list(ET.fromstring(chart).iter("circle"))) == 1


def test_rounding_errors_do_not_fill_the_axis() -> None:
    chart = line_chart([Series("a", [[(0, 50.0), (1, 50.0 - 1e-6)]])], "step", "score")
    numbers = [float(text) for text in axis(chart) if text.replace(".", "").isdecimal()]
    assert len(numbers) == len(set(numbers)) >= 5
    ((first, second),) = points(chart)
    assert first[1] == second[1]


def test_estimates_have_bounds_and_single_values() -> None:
    long = "x" * (LONGEST_LABEL + 1)
    rows = [Estimate("a", 80.0, (79.0, 82.0), (79.5, 80.5)), Estimate(long, 74.0)]
    chart = estimate_chart(rows, "average")
    root = ET.fromstring(chart)
    first, second = (one for one in root.iter("g") if one.get("class") == "series")
    line, *rest = first.findall("line")
    assert rest == []
    centres = [float(one.attrib["cx"]) for one in first.findall("circle")]
    assert float(line.attrib["x1"]) < centres[1] < centres[0] < centres[2] < float(line.attrib["x2"])
    assert second.findall("line") == []
    assert float(second.findall("circle")[0].attrib["cx"]) == axis(chart)["74"][0]
    assert first.findtext("title") == "a: 80.00 (79.00 to 82.00)"
    assert f">{long}<" not in chart  # shortened
    assert f"<title>{long}: 74.00</title>" in chart
