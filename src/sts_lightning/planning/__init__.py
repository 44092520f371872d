"""Memory, arithmetic and time of a training run, known before it starts: no GPU, no weights."""
