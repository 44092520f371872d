"""Sweeps: jobs in fresh processes, several at a time, none run twice.

Jobs at a time, GPUs, cores, memory and time limits are settings in ``conf/hydra/launcher/``.
"""
