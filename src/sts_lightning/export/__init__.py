"""Export of runs to other libraries: peft adapters, merged models, sentence-transformers models."""
