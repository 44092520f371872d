"""What distinguishes settings of runs, on settings written by hand."""

from __future__ import annotations

from sts_lightning.runs.differences import distinguishing, flat, shown


def test_flat_settings_leave_out_what_tells_nothing_about_a_run() -> None:
    nested = {"name": "a", "plan": False, "loss": {"margin": 1, "name": "kept"}, "published": {}}
    assert flat(nested) == {"loss.margin": 1, "loss.name": "kept", "published": {}}


def test_values_are_shown_as_on_the_command_line() -> None:
    assert [shown(value) for value in (None, True, 1e-5, "a")] == ["null", "true", "1e-05", "a"]


def test_settings_are_compared_within_a_class() -> None:
    runs = [
        {"loss._target_": "a.One", "loss.scale": 1, "lr": 1},
        {"loss._target_": "a.Two", "loss.margin": 2, "lr": 1},
    ]
    assert distinguishing(runs) == [{"loss": "One"}, {"loss": "Two"}]
    third = {"loss._target_": "a.Two", "loss.margin": 3, "lr": 1}
    assert distinguishing([*runs, third])[1:] == [
        {"loss": "Two", "loss.margin": 2},
        {"loss": "Two", "loss.margin": 3},
    ]
    assert distinguishing([{"lr": 1}, {"lr": 1, "extra": 5}]) == [{}, {"extra": 5}]  # added by hand


def test_settings_of_a_stage_are_compared_among_runs_that_have_it() -> None:
    with_stage = [{"lr": 1, "stages.one.lr": rate, "stages.one.steps": 5} for rate in (1, 2)]
    assert distinguishing([*with_stage, {"lr": 1}]) == [{"stages.one.lr": 1}, {"stages.one.lr": 2}, {}]
