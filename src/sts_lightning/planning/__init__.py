"""Memory and time of a training run before it starts, by arithmetic: no card, no weights."""
