"""Run what comes first on a machine with a GPU, and print one table: `make check-gpu`.

Three parts within ten minutes, without data and without the model hub: the tests of the tier `gpu`; the front
page's command on a model of Mistral-7B's shape with random weights and few layers; the training step of both
stages of Pcc-tuning with all 32 layers, next to the papers' step. The table is for docs/results.md. Exit
status: 0 if all passed, 1 if something failed, 2 without a CUDA device.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import MistralConfig

from sts_lightning.runs.environment import environment
from sts_lightning.runs.history_rows import read_history
from sts_lightning.testing.tiny_decoders import write_mistral

ROOT = Path(__file__).resolve().parents[1]
LIMIT = 600.0
"""Seconds that the whole check may take."""

HEADER = "| part | result | seconds | examples/s | peak memory |\n|---|---|---|---|---|"

SMALL: dict[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}
"""Shape of the rehearsal on a CPU."""


@dataclass(frozen=True)
class Row:
    """A line of the table.

    Attributes:
        part: What was run.
        result: ``passed``, or what went wrong.
        ok: Whether it passed.
        seconds: Duration; for a training step that of the step.
        rate: Examples per second.
        peak: Peak of the memory allocated on the GPU, in bytes.
    """

    part: str
    result: str
    ok: bool
    seconds: float | None = None
    rate: float | None = None
    peak: int | None = None

    def __str__(self) -> str:
        seconds = "" if self.seconds is None else f"{self.seconds:.1f}"
        rate = "" if self.rate is None else f"{self.rate:.1f}"
        peak = "" if self.peak is None else f"{self.peak / 2**30:.1f} GiB"
        return f"| {self.part} | {self.result} | {seconds} | {rate} | {peak} |"


@dataclass(frozen=True)
class Done:
    """A command that has ended, or was stopped at the time limit."""

    status: int | None
    output: str
    seconds: float

    @property
    def failure(self) -> str:
        """The last line of the output of a command that failed."""
        if self.status is None:
            return f"stopped after {self.seconds:.0f} s"
        lines = [line for line in self.output.splitlines() if line.strip()]
        reason = lines[-1].replace("|", "/")[:200] if lines else "no output"
        return f"failed (exit status {self.status}): {reason}"


def call(command: list[str], deadline: float) -> Done:
    """Run a command in the checkout until it ends, or until the deadline by the monotonic clock."""
    begin = time.monotonic()
    print(f"$ {' '.join(command)}", flush=True)
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=max(1.0, deadline - begin),
            check=False,
        )
    except subprocess.TimeoutExpired as stopped:
        output: Any = stopped.stdout or b""  # bytes in spite of text=True
        text = output if isinstance(output, str) else output.decode(errors="replace")
        result = Done(None, text, time.monotonic() - begin)
    else:
        result = Done(done.returncode, done.stdout, time.monotonic() - begin)
    if result.status != 0:
        print(result.output[-4000:], flush=True)
    return result


def run_tests(report: Path, deadline: float, rehearsal: bool) -> Row:
    """Run the tests of the tier `gpu`; a rehearsal runs their bodies on the CPU."""
    chosen = ["-m", "not gpu and not slow"] if rehearsal else ["-m", "gpu"]
    done = call([sys.executable, "-m", "pytest", "tests/gpu", *chosen, f"--junitxml={report}"], deadline)
    if not report.is_file():
        return Row("pytest -m gpu", done.failure, False, done.seconds)
    return tests_row(report, done)


def tests_row(report: Path, done: Done) -> Row:
    """Count the outcomes in pytest's report, and name the tests that failed."""
    cases = list(ET.parse(report).getroot().iter("testcase"))
    failed = [
        str(case.get("name"))
        for case in cases
        if case.find("failure") is not None or case.find("error") is not None
    ]
    skipped = sum(case.find("skipped") is not None for case in cases)
    passed = len(cases) - len(failed) - skipped
    names = f": {', '.join(failed[:5])}".replace("|", "/") if failed else ""
    text = f"{passed} passed, {len(failed)} failed, {skipped} skipped{names}"
    return Row("pytest -m gpu", text, done.status == 0 and passed > 0, done.seconds)


def run_front_page(folder: Path, layers: int, deadline: float, rehearsal: bool) -> Row:
    """Train with the front page's command for a 7B model, on random weights and generated sentences."""
    config = MistralConfig(num_hidden_layers=layers, **(SMALL if rehearsal else {}))
    write_mistral(folder / "model", config, "cpu" if rehearsal else "cuda")
    run = folder / "run"
    settings = [
        f"model.name={folder / 'model'}",
        "data=toy",
        "data.train_size=1280",
        "data.dev_size=100",
        "data.test_size=50",
        "optim.warmup=2",
        "trainer.max_steps=20",
        "trainer.log_every_n_steps=1",
        "evaluation.final=true",
        f"hydra.run.dir={run}",
        *(["trainer=cpu", "trainer.max_steps=2", "data.batch_size=8"] if rehearsal else []),
    ]
    done = call([sys.executable, "train.py", "model=mistral7b", "loss=pearson", *settings], deadline)
    part = f"train.py model=mistral7b loss=pearson, {layers} layers"
    if done.status != 0:
        return Row(part, done.failure, False, done.seconds)
    return front_page_row(part, run, done)


def front_page_row(part: str, run: Path, done: Done) -> Row:
    """Read speed, memory and the machine's choices from a run folder."""
    stored: dict[str, Any] = json.loads((run / "metrics.json").read_text())
    config = (run / "config.yaml").read_text()
    size = next(
        int(line.split()[1]) for line in config.splitlines() if line.strip().startswith("batch_size:")
    )
    speeds = [
        row["steps_per_second"] for row in read_history(run / "history.csv") if "steps_per_second" in row
    ]
    machine = stored["machine"]
    text = f"passed: {machine['precision']}, deterministic={machine['deterministic']}"
    peak = stored["peak_memory_bytes"].get("cuda")
    return Row(part, text, True, done.seconds, speeds[-1] * size, peak)


def run_bench(file: Path, deadline: float, rehearsal: bool) -> list[Row]:
    """Time the training step of both stages."""
    shape = (
        ["--shape", "tiny", "--device", "cpu", "--batch", "8", "--papers-batch", "4", "--micro", "4"]
        if rehearsal
        else [
            "--shape",
            "mistral7b",
            "--device",
            "cuda",
            "--batch",
            "64",
            "--papers-batch",
            "16",
            "--micro",
            "16",
        ]
    )
    settings = ["--nf4", "--mixed", "--checkpointing", "--compute", "bfloat16", "--chunk-tokens", "16384"]
    more = ["--turns", "2", "--generated", "--json", str(file)]
    done = call([sys.executable, "benchmarks/decoder_step.py", *shape, *settings, *more], deadline)
    rows = bench_rows(json.loads(file.read_text())) if file.is_file() else []
    if done.status != 0:
        rows.append(Row("benchmarks/decoder_step.py", done.failure, False, done.seconds))
    return rows


def bench_rows(found: list[dict[str, Any]]) -> list[Row]:
    """Return a line for each step that was timed."""
    return [
        Row(
            f"stage {step['stage']}, {step['step']}, batch {step['batch']}",
            "passed",
            True,
            step["seconds"],
            step["examples_per_second"],
            step["peak_bytes"],
        )
        for step in found
    ]


def describe_machine() -> str:
    """Return card, driver and versions in one line."""
    versions = environment()["versions"]
    names = ("python", "torch", "lightning", "transformers", "peft", "bitsandbytes")
    installed = ", ".join(f"{name} {versions[name]}" for name in names if name in versions)
    if not torch.cuda.is_available():
        return f"rehearsal on a CPU, no figures of a GPU; {installed}"
    card = torch.cuda.get_device_properties(0)
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        driver = subprocess.run(query, capture_output=True, text=True, check=True).stdout.splitlines()[0]
    except (OSError, subprocess.CalledProcessError, IndexError):
        driver = "unknown"
    return (
        f"{torch.cuda.device_count()} x {card.name} ({card.total_memory / 2**30:.0f} GiB), driver {driver}, "
        f"CUDA {torch.version.cuda}; {installed}; commit {environment()['git_commit']}"
    )


def main() -> None:
    """Run the parts, print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--layers", type=int, default=4, help="layers of the trained model; 32: 15 GB of disk"
    )
    parser.add_argument("--rehearse", action="store_true", help="run everything on the CPU, at tiny shapes")
    options = parser.parse_args()
    if not torch.cuda.is_available() and not options.rehearse:
        print(
            f"No CUDA device is visible to torch {torch.__version__}: nothing was checked. Install the "
            "NVIDIA driver and a CUDA build of torch, and see that CUDA_VISIBLE_DEVICES is not empty.",
            file=sys.stderr,
        )
        raise SystemExit(2)
    deadline = time.monotonic() + LIMIT
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        rows = [run_tests(path / "tests.xml", deadline, options.rehearse)]
        rows.append(run_front_page(path, options.layers, deadline, options.rehearse))
        rows += run_bench(path / "bench.json", deadline, options.rehearse)
    print(f"\n{describe_machine()}\n\n{HEADER}")
    print(*rows, sep="\n")
    raise SystemExit(0 if all(row.ok for row in rows) else 1)


if __name__ == "__main__":
    main()
