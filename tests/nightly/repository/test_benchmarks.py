"""Measurements beside peers."""

from __future__ import annotations

import sys

import beside_st
import pytest
import torch


def test_the_peer_trains_without_our_determinism(monkeypatch: pytest.MonkeyPatch) -> None:
    their_steps, seen = beside_st.their_steps, []

    def watched(*arguments: object) -> list[float]:
        seen.append(torch.are_deterministic_algorithms_enabled())
        return their_steps(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(beside_st, "their_steps", watched)
    options = ["--shape", "tiny", "--sentences", "64", "--steps", "5"]
    monkeypatch.setattr(sys, "argv", ["beside_st.py", *options])
    beside_st.main()
    assert seen == [False, False]
