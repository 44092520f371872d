"""Terms that are added to a loss: embeddings in, a scalar out."""
