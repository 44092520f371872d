"""Scripts of the Hydra commands."""
