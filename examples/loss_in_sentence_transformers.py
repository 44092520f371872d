"""A loss and a regularizer of STS-Lightning in the trainer of sentence-transformers.

python examples/loss_in_sentence_transformers.py [MODEL]        a hub id or a folder
"""

import sys

from datasets import Dataset
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from sentence_transformers.sentence_transformer.evaluation import EmbeddingSimilarityEvaluator

from sts_lightning.losses import PearsonLoss, for_sentence_transformers
from sts_lightning.regularizers.rank_reduction import RankReduction
from sts_lightning.testing.toy import toy

MODEL = sys.argv[1] if len(sys.argv) > 1 else "sentence-transformers/all-MiniLM-L6-v2"

pairs = Dataset.from_dict({**toy(train_size=840).read().train.columns}).rename_column("label", "score")
train, dev = pairs.select(range(640)), pairs.select(range(640, 840))
model = SentenceTransformer(MODEL)
loss = for_sentence_transformers(
    model,
    PearsonLoss(),
    RankReduction(coefficient=1e-3),
    score_range=(0, 5),  # these are scores in [0, 5]; the usual [0, 1] needs no argument
    mini_batch_size=32,  # the loss sees 64 pairs at once, memory holds 32 sentences
)
trainer = SentenceTransformerTrainer(
    model=model,
    args=SentenceTransformerTrainingArguments(
        output_dir="runs/sentence_transformers",
        num_train_epochs=1,
        per_device_train_batch_size=64,
        learning_rate=5e-5,
        dataloader_drop_last=True,
        report_to="none",
        save_strategy="no",
    ),
    train_dataset=train,
    loss=loss,
)
evaluate = EmbeddingSimilarityEvaluator(dev["sentence1"], dev["sentence2"], dev["score"])
before = evaluate(model)["spearman_cosine"]
trainer.train()
print(
    f"dev Spearman {100 * before:.2f} before, {100 * evaluate(model)['spearman_cosine']:.2f} after training"
)
model.save_pretrained("runs/sentence_transformers/model")
