"""Plan the recipes of 7B models on GPUs: `python tools/plan_decoders.py`, table of docs/decoders.md.

Neither weights, data nor a GPU are needed; the table takes two minutes.
"""

from __future__ import annotations

import argparse

from sts_lightning.config.start import compose_runs
from sts_lightning.planning.cost_lines import size
from sts_lightning.planning.estimate import estimate
from sts_lightning.planning.gpus import GIB, find_device

RECIPES = [
    "experiment=pcc model=mistral7b",
    "experiment=pcc model=llama2_7b",
    "experiment=pcc model=llama7b",
    "experiment=pcc model=opt6_7b",
    "experiment=angle_llama",
    "experiment=bellm",
    "experiment=promcse_llama",
]

WITHOUT_DATA = "data_root=/nowhere"
"""Override by which the plan takes the published numbers of examples, on any machine."""


def main() -> None:
    """Print a row for each run of each recipe on each GPU."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--card", nargs="*", default=["rtx4090", "h100"], help="GPUs by name")
    parser.add_argument(
        "--only", nargs="*", default=RECIPES, metavar="OVERRIDES", help="recipes, one text each"
    )
    options = parser.parse_args()
    cards = [find_device(name) for name in options.card]
    print("| recipe | run | batch | steps | card | micro batch | memory | hours |")
    print("|---|---|---|---|---|---|---|---|")
    for recipe in options.only:
        for cfg in compose_runs([*recipe.split(), WITHOUT_DATA]):
            for card in cards:
                plan = estimate(cfg, card)
                hours = "" if plan.seconds is None else f"{plan.seconds / 3600:.1f}"
                name = f"{card.name}, {card.memory // GIB} GB"
                cells = (plan.steps, name, plan.micro_batch or "all", size(plan.memory), hours)
                print(
                    f"| `{recipe}` | {cfg.name} | {cfg.data.batch_size} |",
                    " | ".join(f"{cell:,}" if isinstance(cell, int) else cell for cell in cells),
                    "|",
                    flush=True,
                )


if __name__ == "__main__":
    main()
