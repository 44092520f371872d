"""Sweeps: jobs in fresh processes, several at a time, none run twice."""
