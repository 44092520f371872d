"""Hydra finds launchers in packages below `hydra_plugins`; this is the default of train.py and eval.py."""
