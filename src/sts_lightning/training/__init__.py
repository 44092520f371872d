"""LightningModule, trainer, optimiser, callbacks."""
