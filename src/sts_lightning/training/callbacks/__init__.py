"""Callbacks and loggers of a run."""
