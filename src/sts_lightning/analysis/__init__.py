"""What happens inside a run: plots."""
