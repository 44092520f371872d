"""Command-line programs: `sts-lightning`, one file per command, and the wrapper of the Hydra entry points."""
