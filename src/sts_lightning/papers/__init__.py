"""What only a published table needs; the rest of the package imports nothing of it."""
