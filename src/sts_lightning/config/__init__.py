"""Configuration: types, checks, and the objects that it describes."""
