"""Check a machine with a GPU: `make check-gpu`.

Steps in the order of their value, within 25 minutes, without data and without the model hub. Each is a
process of its own with a time limit; one that fails does not stop the next ones. The table at the end is also
in a file, to paste into an issue, with the end of the output of each step that failed. `--begin 6` leaves out
steps 1 to 5. `--rehearse` runs the same at tiny shapes on a CPU. A slow card gets smaller batches, and leaves
out what is too long even so. Exit status: 0 if nothing failed, 1 if something did, 2 without a CUDA device.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from transformers import MistralConfig

    from sts_lightning.planning.cost import Cost

ROOT = Path(__file__).resolve().parents[1]
SHAPE = {"hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4, "num_key_value_heads": 2}

TOY = "data=toy data.dev_size=200 data.test_size=50 trainer.log_every_n_steps=1"
STAGE1 = (
    f"experiment=pcc_stage1 model=mistral7b prompt=eol {TOY} data.kind=triplets optim.warmup=2 trainer=gpu"
)
SMALL = "trainer=cpu data.dev_size=20 data.test_size=20"
MINILM = f"model=minilm loss=pearson {TOY} data.batch_size=256 trainer=gpu"

WAITS = 20
"""Steps of the run whose synchronisations are counted."""

SHARES = (1, 1 / 2, 1 / 4, 1 / 8, 1 / 16)
"""Parts of a run's batch, or of its steps, and of its dev and test pairs, that a slow card gets."""


class Run(NamedTuple):
    """Settings of train.py, those of a rehearsal, what a slow card gets less of, and the seconds it has."""

    settings: str
    smaller: str
    shrinks: str = ""
    seconds: int | None = None


RUNS = {
    "front page": Run(
        f"model=mistral7b loss=pearson {TOY} model.name={{work}}/mistral4 data.train_size=1280 "
        "data.batch_size=64 trainer.max_epochs=1 trainer.max_steps=20 optim.warmup=2",
        "data.batch_size=8 trainer.max_steps=2",
        shrinks="data.batch_size",
        seconds=50,
    ),
    "32 layers": Run(
        f"{STAGE1} model.name={{work}}/mistral32 data.train_size=4096 data.batch_size=256 "
        "trainer.max_epochs=1 trainer.max_steps=6 trainer.val_every=3 trainer.save_every=3",
        "data.batch_size=8 trainer.max_steps=2",
        shrinks="data.batch_size",
        seconds=180,
    ),
    "segments": Run(
        f"{STAGE1} model.name={{work}}/mistral4 data.train_size=8192 data.batch_size=512 "
        "trainer.max_epochs=1 trainer.max_steps=16",
        "data.train_size=64 data.batch_size=16 trainer.max_steps=2",
        shrinks="trainer.max_steps",  # a smaller batch would not fill the card
        seconds=50,
    ),
    "seed": Run(
        f"{MINILM} data.train_size=25600 trainer.max_epochs=2 trainer.save_every=10",
        "model=tiny_bert data.train_size=1600 data.batch_size=16",
    ),
    "waits": Run(f"{MINILM} data.train_size={256 * WAITS} trainer.max_epochs=1", ""),
    "CPU": Run(
        f"model=tiny_bert {TOY} data.train_size=2000 data.batch_size=16 trainer=cpu trainer.max_epochs=1",
        "data.train_size=320",
    ),
    "SLURM": Run(
        f"model=tiny_mistral model.quantization=4bit prompt=eol {TOY} data.train_size=64 data.batch_size=16 "
        "trainer=gpu trainer.max_epochs=1",
        "",
    ),
}
"""Runs of train.py. Batch and epochs do not depend on a recipe."""

CARD = "card.json"
"""File with the card as step 0 has found it: a process that looks itself takes memory of it."""

BENCH = (
    "--nf4 --mixed --compute bfloat16 --chunk-tokens 16384 --turns 1 --generated --stages 1 --checkpointing"
)
WRITE = """
import json, pathlib, sys, transformers
sys.path.insert(0, "benchmarks")
from check_gpu import write_mistral
write_mistral(pathlib.Path(sys.argv[1]), transformers.MistralConfig(**json.loads(sys.argv[2])), sys.argv[3])
"""
LOAD = """
import resource, sys, time
from sts_lightning.models.encoder import SentenceEncoder
begin, settings = time.monotonic(), {"pooling": "last_token", "device": sys.argv[2]}
SentenceEncoder.from_pretrained(sys.argv[1], dtype="bfloat16", quantization="4bit", **settings)
seconds, host = time.monotonic() - begin, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
print(f"loaded in {seconds:.0f} s with {host:.1f} GiB of host memory")
"""
AT_EXIT = "import atexit; atexit.register(lambda: print({}))"
IN_USE = AT_EXIT.format("'CUDA in use:', torch.cuda.is_initialized()")
RESERVED = AT_EXIT.format("'reserved', torch.cuda.max_memory_reserved() / 2**30, 'GiB'")


LEFT_OUT = 77
"""Exit status of a step that is left out."""


class LeftOut(Exception):  # noqa: N818  # no error
    """A card has no time for the smallest share of a step."""


class Bench(NamedTuple):
    """A folder that the steps share, and whether they rehearse on a CPU."""

    work: Path
    rehearse: bool

    @property
    def device(self) -> str:
        """Device of the models."""
        return "cpu" if self.rehearse else "cuda"

    def settings(self, name: str, share: float = 1) -> list[str]:
        """Return the settings of a run, or of a share of it."""
        run = RUNS[name]
        texts = f"{run.settings} {run.smaller} {SMALL}" if self.rehearse else run.settings
        last = dict(text.split("=", 1) for text in texts.split())  # Hydra takes a group once
        for key in (run.shrinks, "data.dev_size", "data.test_size") if share < 1 else ():
            last[key] = str(int(int(last[key]) * share))
        return [f"{key}={value.format(work=self.work)}" for key, value in last.items()]

    def cost(self, name: str, share: float) -> Cost:
        """Return what `sts-lightning plan` expects of a share of a run, before its model is written."""
        from transformers import MistralConfig

        from sts_lightning.config.compose import compose_train
        from sts_lightning.core.cards import Card
        from sts_lightning.planning.cost import cost_of, find_card
        from sts_lightning.testing.tiny_decoders import byte_tokenizer

        shapes = self._replace(work=self.work / "shapes")
        for layers in (4, 32):
            folder = shapes.work / f"mistral{layers}"
            if not folder.is_dir():
                MistralConfig(**self.shape(layers)).save_pretrained(folder)
                byte_tokenizer("<s>").save_pretrained(folder)
        card = find_card("cpu") if self.rehearse else Card(**json.loads((self.work / CARD).read_text()))
        return cost_of(compose_train(shapes.settings(name, share)), card)

    def share(self, name: str) -> float:
        """Return the largest share of a run that the card has time for."""
        if self.rehearse or (limit := RUNS[name].seconds) is None:
            return 1
        for share in SHARES:
            seconds = self.cost(name, share).seconds
            if seconds is None:  # a card of unknown speed
                return SHARES[2]
            if seconds <= limit:
                return share
        raise LeftOut(f"left out: {SHARES[-1]:.1%} of {name} would take {seconds:.0f} s on this card")

    def train(self, name: str, folder: str = "", code: str = "", **environment: str) -> str:
        """Train in a sub-folder, after some Python code if there is any, and return the output."""
        return finish(self.start(name, folder or name, code, **environment))

    def start(self, name: str, folder: str, code: str = "", **environment: str) -> subprocess.Popen[str]:
        """Start what `train` runs."""
        run = "import runpy; sys.argv[0] = 'train.py'; runpy.run_path('train.py', run_name='__main__')"
        script = ["-W", "always", "-c", f"import sys, torch; {code}\n{run}"] if code else ["train.py"]
        settings = self.settings(name, self.share(name))
        return start([*script, *settings, f"hydra.run.dir='{self.work / folder}'"], **environment)

    def shape(self, layers: int) -> dict[str, Any]:
        """Return the shape of a Mistral."""
        return {"num_hidden_layers": 2, **SHAPE} if self.rehearse else {"num_hidden_layers": layers}

    def mistral(self, layers: int) -> str:
        """Write a Mistral with random weights, if it is not there yet, and return its folder."""
        folder = self.work / f"mistral{layers}"
        if not (folder / "tokenizer.json").is_file():  # the last one
            finish(start(["-c", WRITE, str(folder), json.dumps(self.shape(layers)), self.device]))
        return str(folder)

    def planned(self, name: str) -> str:
        """Return what `sts-lightning plan` expects of a run on this card, its time if the card is known."""
        from sts_lightning.planning.cost import size

        share = self.share(name)
        found = self.cost(name, share)
        micro = "the whole batch" if found.micro_batch is None else f"micro batches of {found.micro_batch}"
        time = "" if found.seconds is None else f"{found.seconds / found.steps:.2f} s a step, "
        return f"plan: {time}peak {size(found.memory)}, {micro}, {share:.1%} of the run"

    def measured(self, folder: str) -> str:
        """Return step time and peak memory of a run."""
        from sts_lightning.runs.folder import RunFolder

        run = RunFolder(self.work / folder)
        rates = [row["steps_per_second"] for row in run.history() if "steps_per_second" in row]
        peaks = run.metrics().details["peak_memory_bytes"].items()
        peak = ", ".join(f"{name} {size / 2**30:.1f} GiB" for name, size in peaks)
        return f"{1 / statistics.median(rates):.2f} s a step, peak {peak}"


def write_mistral(folder: Path, config: MistralConfig, device: str = "cpu") -> None:
    """Write a Mistral with random bfloat16 weights as a folder that ``model.name`` can name.

    Args:
        folder: Output folder, created if necessary.
        config: Shape of the model; ``MistralConfig()`` is that of Mistral-7B. The vocabulary must hold the
            259 tokens of the byte tokenizer.
        device: Device on which the weights are drawn: 7B take minutes on a CPU, and 14 GB of memory.
    """
    import torch
    import transformers

    from sts_lightning.testing.tiny_decoders import byte_tokenizer

    transformers.utils.logging.disable_progress_bar()
    with torch.random.fork_rng([] if device == "cpu" else [device]), torch.device(device):
        torch.manual_seed(0)
        model = transformers.AutoModel.from_config(config, dtype=torch.bfloat16)
    model.save_pretrained(folder, max_shard_size="2GB")
    byte_tokenizer("<s>").save_pretrained(folder)


def start(arguments: Sequence[str], **environment: str) -> subprocess.Popen[str]:
    """Start Python in the checkout."""
    print("$ python", *(text.replace("\n", "; ") for text in arguments), flush=True)
    command, env = [sys.executable, *arguments], {**os.environ, **environment}
    output: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "errors": "replace"}
    return subprocess.Popen(command, cwd=ROOT, env=env, text=True, **output)


def finish(process: subprocess.Popen[str], *statuses: int) -> str:
    """Print and return the output of a process that is to end with one of these statuses, by default 0."""
    output = ""
    for line in process.stdout or ():  # at once, so that it is there when the step is stopped
        print(line, end="", flush=True)
        output += line
    if process.wait() not in (statuses or (0,)):
        raise RuntimeError(f"exit status {process.returncode}: {last_line(output)}")
    return output


def last_line(output: str) -> str:
    """Return the last line that is not empty."""
    return next((line.strip() for line in reversed(output.splitlines()) if line.strip()), "no output")


def nvidia_smi(query: str) -> list[str]:
    """Return the lines of a query to nvidia-smi, none where it does not work."""
    command = ["nvidia-smi", f"--query-{query}", "--format=csv,noheader"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    except (OSError, subprocess.CalledProcessError):
        return []


def versions(bench: Bench) -> str:
    """Return card, driver and versions, after a product on the card."""
    import torch

    from sts_lightning.core.hardware import hidden_gpu
    from sts_lightning.planning.cost import this_card
    from sts_lightning.runs.metrics import environment

    found, driver = environment(), nvidia_smi("gpu=driver_version")
    names = ("python", "torch", "lightning", "transformers", "peft", "bitsandbytes")
    text = ", ".join(f"{name} {found['versions'].get(name, 'missing')}" for name in names)
    text = f"driver {driver[0] if driver else 'none'}, CUDA {torch.version.cuda}, {text}"
    text += f", commit {found['git_commit']}"
    if bench.rehearse:
        return f"rehearsal on a CPU, no figures of a GPU, {text}"
    if not torch.cuda.is_available():
        hidden = "CUDA_VISIBLE_DEVICES hides it." if driver else "nvidia-smi finds no driver of NVIDIA's."
        advice = hidden_gpu() or hidden
        raise SystemExit(f"No CUDA device is visible to torch: nothing was checked. {advice} ({text})")
    if (torch.ones(4, 4, device="cuda") @ torch.ones(4, 4, device="cuda")).sum().item() != 64:
        raise RuntimeError("a product of two matrices is wrong")
    (bench.work / CARD).write_text(json.dumps(asdict(this_card())))
    card = torch.cuda.get_device_properties(0)
    return f"{torch.cuda.device_count()} x {card.name} ({card.total_memory / 2**30:.0f} GiB), {text}"


def tests(bench: Bench) -> str:
    """Run the tests of the GPU tier to the last; a rehearsal runs the body of one on the CPU."""
    report = bench.work / "tests.xml"
    chosen = ["-m", "not gpu", "-k", "vectors_are_those_of_the_cpu"] if bench.rehearse else ["-m", "gpu"]
    options = ["--tb=short", "-p", "no:cacheprovider", f"--junitxml={report}"]
    finish(start(["-m", "pytest", "tests/nightly/gpu", *chosen, *options]), 0, 1)
    return outcomes(report)


def outcomes(report: Path) -> str:
    """Count the outcomes in pytest's report; a failure, or no test at all, is an error."""
    cases = list(ET.parse(report).getroot().iter("testcase"))
    failed = [str(case.get("name")) for case in cases if {"failure", "error"} & {found.tag for found in case}]
    skipped = sum(case.find("skipped") is not None for case in cases)
    passed = len(cases) - len(failed) - skipped
    text = f"{passed} passed, {len(failed)} failed, {skipped} skipped"
    if failed or not passed:
        raise RuntimeError(f"{text}: {', '.join(failed)}")
    return text


def trained(
    name: str, bench: Bench, layers: int = 0, folder: str = "", code: str = "", **environment: str
) -> str:
    """Train, a Mistral of this many layers if it needs one."""
    bench.share(name)  # before 14 GB are written for a run that is left out
    if layers:
        bench.mistral(layers)
    output = bench.train(name, folder, code, **environment)
    told = re.findall(r"^reserved .*|^.* fits? into memory", output, re.MULTILINE)
    return "; ".join([bench.measured(folder or name), *told])


def segments(expandable: bool, bench: Bench) -> str:
    """Fill the card to the brim with many shapes."""
    conf = {"PYTORCH_CUDA_ALLOC_CONF": f"expandable_segments:{expandable}"}  # the name that every torch reads
    return trained("segments", bench, 4, f"segments {expandable}", RESERVED, **conf)


def whole_model(bench: Bench) -> str:
    """Load all layers, then train them."""
    bench.share("32 layers")
    loaded = last_line(finish(start(["-c", LOAD, bench.mistral(32), bench.device])))
    return f"{loaded}; {trained('32 layers', bench)}; {bench.planned('32 layers')}"


def beside_papers(bench: Bench) -> str:
    """Time stage 1's step beside the papers' step, in micro batches of two sizes.

    Each of the three runs twice, so they take as long as the six steps of "32 layers".
    """
    batch = int(256 * bench.share("32 layers"))
    shape = "tiny --batch 16 --device cpu" if bench.rehearse else f"mistral7b --batch {batch} --device cuda"
    options = f"{BENCH} --micro 16 64 --shape {shape}".split()
    output = finish(start(["benchmarks/decoder_step.py", *options]))
    found = re.findall(r"^stage 1, (.*)", output, re.MULTILINE)
    return "; ".join(" ".join(line.split()) for line in found)


def beside_st(shape: str, bench: Bench) -> str:
    """Time evaluation and training steps beside sentence-transformers."""
    if find_spec("sentence_transformers") is None:
        return "sentence-transformers is not installed (extra st)"
    small = "--shape tiny --device cpu --sentences 1000 --steps 5"
    sentences = int(26_798 * bench.share("front page"))
    options = small if bench.rehearse else f"--shape {shape} --device cuda --sentences {sentences}"
    output = finish(start(["benchmarks/beside_st.py", *options.split()]))
    return "; ".join(re.findall(r"^(?:\d+ sentences|step of).*", output, re.MULTILINE))


def same_as_first(bench: Bench, folder: str) -> str:
    """Compare a run with the first of its seed, to the bit."""
    import torch

    import sts_lightning
    from sts_lightning.runs.folder import RunFolder

    if not RunFolder(bench.work / "seed a").finished:
        bench.train("seed", "seed a")
    found = []
    for name in ("seed a", folder):
        run = RunFolder(bench.work / name)
        rows = [{key: row[key] for key in row if "per_second" not in key} for row in run.history()]
        found.append((sts_lightning.load(run.path).state_dict(), rows))
    (one, history), (two, other) = found
    differ = sum(not torch.equal(one[name], two[name]) for name in one)
    if differ or history != other:
        raise RuntimeError(f"{differ} of {len(one)} weights differ; history equal: {history == other}")
    return f"{len(one)} weights and {len(history)} rows of history equal; {bench.measured(folder)}"


def same_seed(bench: Bench) -> str:
    """Train twice with the same seed."""
    bench.train("seed", "seed b")
    return same_as_first(bench, "seed b")


def interrupted(number: signal.Signals, bench: Bench) -> str:
    """Send a signal to a run after its first checkpoint, resume it, and compare it with one that ran on."""
    folder = bench.work / number.name
    process = bench.start("seed", number.name)
    while process.poll() is None and not (folder / "checkpoints" / "last.ckpt").is_file():
        time.sleep(0.05)
    process.send_signal(number)
    finish(process, -number, 128 + number)  # not caught, or caught
    finish(start(["train.py", f"resume='{folder}'"]))
    return same_as_first(bench, number.name)


def waits(bench: Bench) -> str:
    """Count by line where Python waits for the card, in a run with its evaluations."""
    output = bench.train("waits", code="torch.cuda.set_sync_debug_mode('warn')")
    lines = Counter(re.findall(r"(\S+:\d+): UserWarning: called a synchronizing", output))
    if not lines:
        raise RuntimeError("torch reported none, not even those of the evaluations")
    steady = sum(count // WAITS for count in lines.values())
    shown = (f"{'/'.join(Path(line).parts[-2:])} {count}" for line, count in lines.most_common(20))
    return f"{steady} in each of {WAITS} steps, {lines.total()} in all: {', '.join(shown)}"


def cpu_run(bench: Bench) -> str:
    """Train on the CPU, and see whether the process uses the card."""
    process = bench.start("CPU", "CPU", IN_USE)
    listed = False
    while process.poll() is None:
        listed = listed or str(process.pid) in nvidia_smi("compute-apps=pid")
        time.sleep(0.5)
    text = f"{re.findall(r'CUDA in use: .*', finish(process))[-1]}, listed by nvidia-smi: {listed}"
    if "True" in text:
        raise RuntimeError(text)
    return text


def encode(bench: Bench) -> str:
    """Encode with the run of all layers."""
    import torch

    import sts_lightning

    count = 100 if bench.rehearse else int(2000 * bench.share("32 layers"))
    encoder = sts_lightning.load(bench.work / "32 layers").to(bench.device)
    texts = [f"A man is playing a guitar number {n}." for n in range(count)]
    encoder.encode(texts[:64])
    begin = time.monotonic()
    encoder.encode(texts)  # the vectors are on the host, so nothing is left to wait for
    rate, peak = len(texts) / (time.monotonic() - begin), torch.cuda.max_memory_allocated()
    return f"{rate:.0f} sentences/s, peak {peak / 2**30:.1f} GiB"


class Step(NamedTuple):
    """A step: its function, what to expect, its limit in seconds, whether a CPU cannot stand in."""

    name: str
    run: Callable[[Bench], str]
    expected: str
    limit: int
    gpu: bool = False


STEPS = (
    Step("0 versions, driver, card", versions, "torch sees the card", 60),
    Step("1 front page, 4 layers", partial(trained, "front page", layers=4), "20 steps", 80),
    Step("2 stage 1, 32 layers", whole_model, "near the plan", 280),
    Step("3 encode at 7B", encode, "no shortage of memory", 50),
    Step("4 beside the papers' step", beside_papers, "faster; on 24 GB theirs runs out", 240),
    Step("5 BERT-base beside ST", partial(beside_st, "bert_base"), "at least as fast", 100),
    Step("6 tests of the GPU tier", tests, "none fails", 170),
    Step("7 synchronisations by line", waits, "at most 2 a step", 50, gpu=True),
    Step("8 the same seed twice", same_seed, "equal to the bit", 70),
    Step("9 SIGKILL, resume", partial(interrupted, signal.SIGKILL), "as if never killed", 60),
    Step("10 SIGTERM, resume", partial(interrupted, signal.SIGTERM), "as if never stopped", 60),
    Step("11 MiniLM beside ST", partial(beside_st, "minilm"), "at least as fast", 60),
    Step("12 a CPU run beside the card", cpu_run, "no CUDA context", 30),
    Step("13 SLURM_LOCALID=1, one card", partial(trained, "SLURM", SLURM_LOCALID="1"), "trains", 40),
    Step("14 segments of fixed size", partial(segments, False), "survives", 75, gpu=True),
    Step("15 expandable segments", partial(segments, True), "survives, less is reserved", 75),
)


class Result(NamedTuple):
    """Outcome of a step; `ok` is None where it did not run."""

    step: Step
    ok: bool | None
    seen: str
    seconds: float = 0.0
    output: str = ""

    def __str__(self) -> str:
        ok = {True: "yes", False: "**no**", None: ""}[self.ok]
        cells = (self.step.name, self.step.expected, self.seen, f"{self.seconds:.0f}", ok)
        return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |\n"


def perform(step: Step, command: Sequence[str]) -> Result:
    """Run the process of a step until it ends or its time is over; what it has started ends with it."""
    begin, late = time.monotonic(), ""
    with tempfile.TemporaryFile("w+", errors="replace") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)
        try:
            process.wait(step.limit)
        except subprocess.TimeoutExpired:
            late = f"stopped after {step.limit} s: "
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        seconds = time.monotonic() - begin
        output.seek(0)
        text = output.read()
    seen = late + last_line(text).removeprefix("seen: ")[:1500]
    ok = {0: True, LEFT_OUT: None}.get(process.returncode, False)
    return Result(step, ok, seen, seconds, text)


def report(results: Sequence[Result]) -> str:
    """Return the table, with the versions above it and the output of what failed below."""
    text = f"`make check-gpu`: {results[0].seen}\n\n"
    text += "| step | expected | seen | seconds | ok |\n|---|---|---|---|---|\n" + "".join(map(str, results))
    for result in results:
        if result.ok is False:
            text += f"\n{result.step.name}:\n\n```\n{result.output[-3000:].strip()}\n```\n"
    return text


def main() -> None:
    """Run the steps or, in the process of a step, that step."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rehearse", action="store_true", help="run everything on the CPU, at tiny shapes")
    parser.add_argument("--report", type=Path, default=ROOT / "runs" / "check_gpu.md", help="file to write")
    parser.add_argument("--begin", type=int, default=1, help="number of the first step after the versions")
    parser.add_argument("--step", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.step is not None:
        try:
            print("seen:", STEPS[options.step].run(Bench(options.work, options.rehearse)))
        except LeftOut as reason:
            print(reason)
            raise SystemExit(LEFT_OUT) from None
        return
    options.report = options.report.resolve()
    options.report.parent.mkdir(parents=True, exist_ok=True)
    results: list[Result] = []
    with tempfile.TemporaryDirectory(prefix="check_gpu_", dir=options.report.parent) as work:  # 17 GB
        for number, step in enumerate(STEPS):
            if 0 < number < options.begin:
                continue
            if options.rehearse and step.gpu:
                results.append(Result(step, None, "needs a GPU"))
                continue
            print(f"{step.name} (at most {step.limit} s)", file=sys.stderr)
            command = [sys.executable, __file__, "--step", str(number), "--work", work]
            if options.rehearse:  # beside others on a busy machine
                command, step = [*command, "--rehearse"], step._replace(limit=4 * step.limit)
            results.append(perform(step, command))
            if not results[0].ok:
                print(results[0].seen, file=sys.stderr)
                raise SystemExit(2)
            options.report.write_text(report(results))
    print(report(results))
    print(f"written to {options.report}", file=sys.stderr)
    raise SystemExit(any(result.ok is False for result in results))


if __name__ == "__main__":
    main()
