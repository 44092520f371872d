"""Time encoding with and without a shared template prefix: `make bench-prefix`."""

from __future__ import annotations

import argparse
import statistics
import time

import numpy as np
import torch
from decoders import TEMPLATES, make_encoder, triplets


def main() -> None:
    """Encode in turns and print ratios; exit with status 1 if the vectors differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sentences", type=int, default=600)
    parser.add_argument("--turns", type=int, default=3)
    options = parser.parse_args()
    texts = [text for column in triplets(options.sentences // 3) for text in column]
    worst = 0.0
    for template in TEMPLATES:
        encoder = make_encoder("small", torch.float32, "cpu", nf4=False, template=template).eval()
        times: dict[bool, list[float]] = {True: [], False: []}
        vectors = {}
        for _ in range(options.turns):
            for shared, seconds in times.items():
                begin = time.perf_counter()
                vectors[shared] = encoder.encode(texts, progress=False, share_prefix=shared)
                seconds.append(time.perf_counter() - begin)
        difference = float(np.abs(vectors[True] - vectors[False]).max() / np.abs(vectors[False]).max())
        worst = max(worst, difference)
        ratio = statistics.median(times[False]) / statistics.median(times[True])
        print(f"prompt={template}: {ratio:.2f} times as fast, largest relative difference {difference:.1e}")
    raise SystemExit(int(worst > 1e-4))


if __name__ == "__main__":
    main()
