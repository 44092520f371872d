"""Regularizers: embeddings in, a scalar to add to the loss out."""
