"""Plan the recipes of 7B models on a card: `python tools/plan_decoders.py`, table of docs/decoders.md.

Neither weights nor a GPU are needed; a stage takes about a minute.
"""

from __future__ import annotations

import argparse

from sts_lightning.config.compose import compose_train
from sts_lightning.planning.cost_lines import duration, size
from sts_lightning.planning.estimate import estimate
from sts_lightning.planning.gpus import find_device

RECIPES = [
    "experiment=pcc",
    "experiment=pcc model=llama2_7b",
    "experiment=pcc model=llama7b",
    "experiment=pcc model=opt6_7b",
    "experiment=angle_llama",
    "experiment=bellm",
    "experiment=promcse_llama",
]


def main() -> None:
    """Print a row for each stage of each recipe."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--card", default="rtx4090")
    parser.add_argument(
        "--only", nargs="*", default=RECIPES, metavar="OVERRIDES", help="recipes, one text each"
    )
    options = parser.parse_args()
    card = find_device(options.card)
    print(f"| recipe on {card.name} | stage | batch | micro batch | memory | steps | time |")
    print("|---|---|---|---|---|---|---|")
    for recipe in options.only:
        for stage, cfg in compose_train(recipe.split()).items():
            plan = estimate(cfg, card)
            time = "" if plan.seconds is None else duration(plan.seconds)
            cells = (plan.micro_batch or "all", size(plan.memory), f"{plan.steps:,}", time)
            print(
                f"| `{recipe}` | {stage} | {cfg.data.batch_size} |",
                " | ".join(map(str, cells)),
                "|",
                flush=True,
            )


if __name__ == "__main__":
    main()
