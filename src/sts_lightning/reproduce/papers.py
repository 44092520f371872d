"""Tables and figures of the papers that no specification covers, and the sizes of models."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Item:
    """A table or figure of a paper that no specification covers.

    Attributes:
        why: What it shows, since it has no scores.
        command: Command that shows the same here; empty if there is none.
        drawn_from: Table whose runs it is drawn from; None for an item without results.
    """

    why: str
    command: str = ""
    drawn_from: str | None = None


PAPERS = {
    "Pcc-tuning": (8, 2),
    "Pcc-tuning v1": (6, 2),
    "STS-Regression": (7, 3),
    "Rank reduction": (8, 7),
}
"""Number of tables and of figures of each paper."""

OTHERS = {
    "Pcc-tuning, Table 4": Item("templates, which are conf/prompt/{eol,sth,sum}.yaml"),
    "Pcc-tuning, Figure 1": Item("a drawing; its bound", "sts-lightning ceiling"),
    "Pcc-tuning, Figure 2": Item("a drawing of the two stages"),
    "Pcc-tuning v1, Table 3": Item("templates, which are conf/prompt/{eol,sth,sum}.yaml"),
    "Pcc-tuning v1, Figure 1": Item("a drawing; its bound", "sts-lightning ceiling"),
    "Pcc-tuning v1, Figure 2": Item("a drawing of the two stages"),
    "STS-Regression, Table 2": Item("hyper-parameters, which are those of regression_table1"),
    "STS-Regression, Table 7": Item("pairs of SICK-R that leak", "sts-lightning leaks --list leaks.csv"),
    "STS-Regression, Figure 1": Item("a drawing of the Siamese network"),
    "STS-Regression, Figure 3": Item("a drawing of the two steps"),
    "Rank reduction, Table 6": Item("hyper-parameters, which are those of rank_table8"),
    "Rank reduction, Table 7": Item("hyper-parameters, which are those of rank_table2"),
    "Rank reduction, Figure 5": Item(
        "rank against dev score by phase, plots/rank_against_dev.png of each run with callbacks=rank_monitor",
        "python train.py experiment=simcse_unsup callbacks=rank_monitor",
        drawn_from="rank_table2",
    ),
}
"""Tables and figures without a specification, by paper and number."""

PARAMETERS = {
    "bert_base": "110 M",
    "bert_large": "335 M",
    "glove": "word vectors",
    "jina_v2": "137 M",
    "llama2_7b": "7 B",
    "llama2_7b_prefix": "7 B",
    "llama7b": "7 B",
    "minilm": "22 M",
    "mistral7b": "7 B",
    "nomic_v1": "137 M",
    "opt6_7b": "6.7 B",
    "roberta_base": "125 M",
    "roberta_large": "355 M",
}
"""Number of parameters of the models of the tables."""
