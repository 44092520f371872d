"""The choices of the configuration, each defined once."""

from __future__ import annotations

from typing import Literal

Frozen = Literal["none", "encoder", "encoder_with_dropout"]
"""Which part of the model is frozen.

``encoder``: the encoder's weights, with dropout off. ``encoder_with_dropout``: its weights only, as in
STS-Regression's code.
"""

LabelKind = Literal["none", "score", "class"]
"""Kind of label of a training example: none, a similarity score in [0, 5], or a class index."""
