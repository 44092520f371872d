"""From a file of scored pairs to an encoder, from Python: train, read the scores, encode.

python examples/own_pairs.py [MODEL]        a choice of conf/model, as in `python train.py model=...`
"""

import csv
import sys

import sts_lightning
from sts_lightning.testing.toy import toy

MODEL = sys.argv[1] if len(sys.argv) > 1 else "minilm"

# Replace this by a file of your own: two texts and a score, as a spreadsheet saves them.
with open("toy_pairs.csv", "w", newline="") as file:
    rows = csv.writer(file)
    rows.writerow(["sentence1", "sentence2", "score"])
    for row in toy(train_size=640).read().train:
        rows.writerow([row["sentence1"], row["sentence2"], row["label"]])

# The same as: sts-lightning train data=pairs_file path=toy_pairs.csv loss=pearson model=minilm \
#     optim.lr=5e-5 trainer.max_epochs=1 evaluation.final=false
run = sts_lightning.train(
    data="toy_pairs.csv",
    loss="pearson",
    model=MODEL,
    settings={"optim.lr": 5e-5, "trainer.max_epochs": 1, "evaluation.final": False},  # no test sets
)
print(f"dev Spearman {run.metrics().score:.2f}; everything else is in {run.path}")

encoder = sts_lightning.load(run.path)
vectors = encoder.encode(
    ["The doctor fixed a bike at dawn .", "At daybreak the physician repaired a bicycle ."]
)
print(f"cosine {encoder.similarity(vectors)[0, 1]:.3f}")
