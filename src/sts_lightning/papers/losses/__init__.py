"""Losses of single papers. Each has a file, a class and a YAML of the same name."""
