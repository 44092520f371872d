"""Print the table of "What a card takes" in docs/decoders.md: arithmetic, for which nothing is needed.

Each row is a run that `sts-lightning plan RECIPE init_from=null data_root=/nowhere --card CARD` plans too.
"""

from __future__ import annotations

from sts_lightning.config.check import check_config
from sts_lightning.config.compose import compose_train
from sts_lightning.core.cards import CARDS, GIB
from sts_lightning.planning.cost import cost_of

DECODERS = ("mistral7b", "llama2_7b", "llama7b", "opt6_7b")
RUNS = [
    *(
        f"experiment={run} model={model} prompt=eol"
        for model in DECODERS
        for run in ("pcc_stage1", "pcc_stage2")
    ),
    "experiment=angle_llama",
    "experiment=bellm",
    "experiment=promcse_llama",
]
ON = {"rtx4090": "rtx4090, 24 GB", "h100": "h100, 80 GB"}


def main() -> None:
    """Print one row for each run."""
    heads = ("recipe", "batch", "steps", "weights, gradients, optimiser", *ON.values())
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    for run in RUNS:
        cfg = check_config(compose_train([*run.split(), "init_from=null", "data_root=/nowhere"]))
        costs = [cost_of(cfg, CARDS[name]) for name in ON]
        state = (costs[0].weights + costs[0].gradients + costs[0].optimiser) / GIB
        cells = [f"`{run}`", f"{cfg.data.batch_size}", f"{costs[0].steps:,}", f"{state:.2f} GiB"]
        for cost in costs:
            assert cost.seconds is not None
            micro = "whole batch" if cost.micro_batch is None else f"micro batch {cost.micro_batch}"
            cells.append(f"{micro}, {cost.seconds / cost.steps:.1f} s a step, {cost.seconds / 3600:.1f} h")
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
