"""Sentence encoders: text in, vectors out."""

from sts_lightning.models.encoder import SentenceEncoder

__all__ = ["SentenceEncoder"]
