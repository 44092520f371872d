"""Ways to run an encoder that take less time or memory."""
