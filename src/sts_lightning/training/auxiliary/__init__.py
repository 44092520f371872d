"""Models beside the encoder that supply a loss with more than views and labels."""
