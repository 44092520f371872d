"""Errors, files, signals and logging, which every other package uses."""
