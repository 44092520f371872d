"""What single model types need."""
