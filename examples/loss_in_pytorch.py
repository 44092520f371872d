"""A loss and a regularizer of STS-Lightning in a plain loop of PyTorch: vectors and scores in, a number out.

python examples/loss_in_pytorch.py [MODEL]        a hub id or a folder of transformers
"""

import sys

import torch
from transformers import AutoModel, AutoTokenizer

from sts_lightning.losses import PearsonLoss
from sts_lightning.regularizers.rank_reduction import RankReduction
from sts_lightning.testing.toy import toy

MODEL = sys.argv[1] if len(sys.argv) > 1 else "sentence-transformers/all-MiniLM-L6-v2"
BATCH = 32

torch.manual_seed(1)
pairs = toy(train_size=640).read().train  # columns sentence1, sentence2 and label, a score in [0, 5]
tokenizer = AutoTokenizer.from_pretrained(MODEL)
model = AutoModel.from_pretrained(MODEL).train()
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5)
loss, regularizer = PearsonLoss(), RankReduction(coefficient=1e-3)


def embed(sentences: list[str]) -> torch.Tensor:
    """Return the mean of the hidden states of each sentence, (B, D)."""
    tokens = tokenizer(sentences, padding=True, truncation=True, return_tensors="pt")
    mask: torch.Tensor = tokens["attention_mask"].unsqueeze(-1)
    states: torch.Tensor = model(**tokens).last_hidden_state
    return (states * mask).sum(1) / mask.sum(1)


for start in range(0, len(pairs), BATCH):
    rows = pairs[start : start + BATCH]
    views = torch.stack([embed(rows["sentence1"]), embed(rows["sentence2"])])  # (V, B, D)
    value = loss(views, torch.tensor(rows["label"])) + regularizer(views)
    optimizer.zero_grad()
    value.backward()
    optimizer.step()
    print(f"{start + BATCH:4} pairs, loss {value.item():.4f}")
