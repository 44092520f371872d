"""Small random models and a generated language, for tests and demonstrations."""
