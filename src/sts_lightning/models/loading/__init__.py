"""Weights and settings from files and the hub."""
