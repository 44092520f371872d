"""Ranks, alignment, uniformity and phases of sentence vectors, and plots of runs."""
