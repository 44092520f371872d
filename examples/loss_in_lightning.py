"""A LightningModule of one's own with the encoder, the data and a loss of STS-Lightning.

`sts_lightning.training.module.STSModule` is the one that train.py uses.

python examples/loss_in_lightning.py [MODEL]        a hub id or a folder of transformers
"""

import sys
from typing import Any

import lightning.pytorch as pl
import torch
from torch import Tensor

from sts_lightning.data.module import DataModule
from sts_lightning.losses import CoSENTLoss
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.testing.toy import toy

MODEL = sys.argv[1] if len(sys.argv) > 1 else "sentence-transformers/all-MiniLM-L6-v2"
CHUNK_TOKENS = 2048  # tokens encoded together, padding included


class Pairs(pl.LightningModule):
    """Trains an encoder on scored pairs."""

    def __init__(self, encoder: SentenceEncoder) -> None:
        super().__init__()
        self.encoder = encoder.train()  # it comes in evaluation mode
        self.loss = CoSENTLoss()

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        """Return the loss of a batch: its rows are the first sentences, then the second ones."""
        views = self.encoder(batch.rows).unflatten(0, (batch.num_views, -1))  # (V, B, D)
        value: Tensor = self.loss(views, batch.labels)
        self.log("loss", value, prog_bar=True, batch_size=batch.size)
        return value

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return AdamW for all weights."""
        return torch.optim.AdamW(self.parameters(), lr=5e-5)


pl.seed_everything(1)
data = DataModule(toy(train_size=640, dev_size=200), batch_size=32)  # or pairs_file("pairs.csv")
data.setup()
encoder = SentenceEncoder.from_pretrained(MODEL, pooling="mean")
data.connect(encoder.prepare(CHUNK_TOKENS, training=True), encoder.prepare(CHUNK_TOKENS, training=False))
trainer = pl.Trainer(max_epochs=1, limit_val_batches=0, logger=False, enable_checkpointing=False)
trainer.fit(Pairs(encoder), data)
vectors = encoder.eval().encode(data.train["sentence1"][:2])
print(f"loss {trainer.callback_metrics['loss']:.4f}, vectors of shape {vectors.shape}")
