"""Models beside the encoder that single papers train with."""
