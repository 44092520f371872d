"""Print the files that a command, a batch, a load and an encode pass through: `python tools/roads.py`.

A file counts once a function of it is called; what runs while modules are imported does not. Each is printed
with the first of its functions, in the order of first calls. A newcomer reads them in this order.
"""

from __future__ import annotations

import inspect
import io
import os
import runpy
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SRC = f"{ROOT / 'src'}{os.sep}"

ABOVE = ("sts_lightning/cli/hydra_app.py", "sts_lightning/workflows/")
"""Files above the components: what a command does, one after the other."""

COMMAND = (
    "model=tiny_bert",
    "data=toy",
    "trainer.max_steps=2",
    "trainer=cpu",
    "precision=32-true",
    "evaluation.final=false",
)
DEMO = ("experiment=demo", "trainer.max_steps=1")

COUNT_MODULES = f"""
import runpy, sys
sys.argv = ["train.py", *{DEMO!r}, "hydra.run.dir=" + sys.argv[1]]
runpy.run_path({str(ROOT / "train.py")!r}, run_name="__main__")
print(sum(name.startswith(("sts_lightning", "hydra_plugins.sts_lightning")) for name in sys.modules))
"""


class Road:
    """Files of ours in the order in which a function of each is first called.

    Attributes:
        first: Place and name of that function, by the path of the file below ``src``.
    """

    def __init__(self) -> None:
        self.first: dict[str, str] = {}

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Note the calls within."""
        sys.setprofile(self._note)
        try:
            yield
        finally:
            sys.setprofile(None)

    def watch(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that does the same and is watched."""

        def watched(*arguments: Any, **named: Any) -> Any:
            with self.watched():
                return function(*arguments, **named)

        return watched

    def above(self) -> list[str]:
        """Return the files above the components."""
        return [name for name in self.first if name.startswith(ABOVE)]

    def print(self) -> None:
        """Print a line for each file."""
        for name, function in self.first.items():
            print(f"  {'*' if name.startswith(ABOVE) else ' '} src/{name}{function}")

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event != "call" or not (code.co_filename.startswith(SRC) and code.co_filename.endswith(".py")):
            return
        name = code.co_filename.removeprefix(SRC)
        # The body of a class is a call, too, and has no variables of its own.
        if name not in self.first and code.co_flags & inspect.CO_OPTIMIZED and not _left_out(frame.f_back):
            self.first[name] = f":{code.co_firstlineno} {code.co_qualname}"


def _left_out(frame: FrameType | None) -> bool:
    """Return whether a call comes from the body of a module of ours, or from the making of an encoder.

    An encoder makes its tokenizer and tries itself on two sentences, by the files that `encode` calls.
    """
    while frame is not None:
        code = frame.f_code
        imports = code.co_name == "<module>" and code.co_filename.startswith(SRC)
        if imports or code.co_qualname == "SentenceEncoder.__init__":
            return True
        frame = frame.f_back
    return False


def command(run: Path) -> Road:
    """Train two steps by the command."""
    road = Road()
    sys.argv = [str(ROOT / "train.py"), *COMMAND, f"hydra.run.dir={run}"]
    with road.watched():
        runpy.run_path(sys.argv[0], run_name="__main__")
    return road


def batch(run: Path, to: Path) -> Road:
    """Train on one batch as a run is configured: from the rows of the data to the gradients."""
    from sts_lightning.config.check import check_config
    from sts_lightning.runs.folder import RunFolder
    from sts_lightning.workflows.train import prepare

    cfg = check_config(RunFolder(run).load_config())
    cfg.trainer.max_steps = 1
    experiment = prepare(RunFolder(to), cfg)
    road, module = Road(), experiment.module
    loader = experiment.data.train_dataloader()
    loader.collate_fn = road.watch(loader.collate_fn)
    for name in ("training_step", "backward"):
        setattr(module, name, road.watch(getattr(module, name)))
    experiment.trainer.fit(module, loader)
    return road


def load(source: Path | str) -> tuple[Road, Any]:
    """Load an encoder; return it as well."""
    from sts_lightning import load

    road = Road()
    with road.watched():
        encoder = load(source)
    return road, encoder


def encode(encoder: Any) -> Road:
    """Encode two sentences."""
    road = Road()
    with road.watched():
        encoder.encode(["A man plays a guitar.", "A dog runs."])
    return road


def demo_modules(run: Path) -> int:
    """Return the number of modules of ours that the demo loads, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", COUNT_MODULES, str(run)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return int(done.stdout.splitlines()[-1])


def main() -> None:
    """Walk the roads, and print each."""
    with TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        with redirect_stdout(io.StringIO()):  # what the command itself prints
            whole = command(run)
            step = batch(run, Path(folder) / "batch")
            of_run, _ = load(run)
            of_model, encoder = load("sentence-transformers/all-MiniLM-L6-v2")  # of the extra `offline`
            encoding = encode(encoder)
        modules = demo_modules(Path(folder) / "demo")
    print(f"command: {len(whole.first)} files, {len(whole.above())} of them above the components (*)")
    whole.print()
    for name, road in {"batch": step, "load": of_model, "load_run": of_run, "encode": encoding}.items():
        print(f"{name}: {len(road.first)} files")
        road.print()
    print(f"demo: {modules} modules of ours are loaded")


if __name__ == "__main__":
    main()
