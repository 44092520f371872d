"""Architectures that transformers lacks, or computes otherwise than checkpoints of the papers say."""
