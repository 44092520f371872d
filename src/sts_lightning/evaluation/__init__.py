"""Scores of anything with `encode`."""
