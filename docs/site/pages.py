"""Pages that the site has besides those in docs: generated from the README, conf/ and the modules."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

from docstrings import display
from loss_curves import curves, draw
from markdown.extensions.toc import slugify as slug
from mkdocs.structure.files import File

from sts_lightning.config.folders import files_of

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

ROOT = Path(__file__).parents[2]
SETTING = re.compile(r"^(?P<indent> *)(?P<key>[\w.]+):(?: +(?P<value>.*?))?(?:  # (?P<comment>.*))?$")
EQUATION = re.compile(r"^\$\$\n(.*?)\n\$\$$", re.MULTILINE | re.DOTALL)
SCORES = "One loss each on the 5,398 pairs"
"""Heading of the table of losses in docs/results.md."""

GROUPS = ("trainer", "data", "model", "prompt", "regularizer", "auxiliary", "callbacks", "logger")
PYTHON = {
    "Encoders": (
        "sts_lightning.models.loading.run",
        "sts_lightning.models.encoder",
        "sts_lightning.models.chunk_encoder",
    ),
    "Training": ("sts_lightning.cli.from_python", "sts_lightning.export.sentence_transformers_loss"),
    "Training with a plain Trainer": ("sts_lightning.training.module", "sts_lightning.data.module"),
    "Data sets": (
        "sts_lightning.data.data_set",
        "sts_lightning.data.own_rows",
        "sts_lightning.data.own_scored_pairs",
        "sts_lightning.data.nli",
        "sts_lightning.data.sentences",
        "sts_lightning.data.sts_train",
    ),
    "Evaluation": (
        "sts_lightning.evaluation.sts",
        "sts_lightning.evaluation.encoding",
        "sts_lightning.evaluation.statistics",
        "sts_lightning.papers.ceiling",
    ),
    "Analysis": (
        "sts_lightning.papers.vector_ranks",
        "sts_lightning.papers.alignment",
        "sts_lightning.papers.phases",
    ),
    "Runs": ("sts_lightning.runs.folder", "sts_lightning.runs.metrics", "sts_lightning.runs.listing"),
    "Errors": ("sts_lightning.core.errors",),
}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages."""
    pages = {
        "index.md": "---\nhide: [toc]\n---\n\n" + _linked((ROOT / "README.md").read_text("utf-8")),
        "contributing.md": _linked((ROOT / "CONTRIBUTING.md").read_text("utf-8")),
        "reference/settings.md": "\n".join(settings()),
        "reference/losses.md": "\n".join(losses()),
        "reference/python.md": "\n".join(python()),
        "assets/site.css": (Path(__file__).parent / "site.css").read_text("utf-8"),
    }
    for path, content in pages.items():
        files.append(File.generated(config, path, content=content))
    return files


def on_page_markdown(markdown: str, **_: object) -> str:
    """Adapt links to files that lie outside the folder of the pages, and draw equations."""
    markdown = re.sub(r"\]\((\.\./)+CONTRIBUTING\.md", "](contributing.md", markdown)
    # Scripts and notebooks are not on the site.
    markdown = re.sub(r"\[([^\]]*)\]\((?:\.\./)*(?:examples|notebooks)\)", r"`\1`", markdown)
    return EQUATION.sub(lambda found: display(found[1]), markdown)


def _linked(text: str) -> str:
    return text.replace("](docs/", "](").replace("](CONTRIBUTING.md)", "](contributing.md)")


def settings() -> Iterator[str]:
    """Lines of the reference of all settings."""
    yield "# Settings\n\nEvery setting with its default value, from the files in `conf/`.\n"
    for name, title in (("train", "train.py"), ("eval", "eval.py")):
        yield f"## {title}\n"
        yield from _table(ROOT / "conf" / f"{name}.yaml")
    for group in GROUPS:
        yield f"## {group}\n"
        for path in files_of(group).values():
            yield f"### {group}={path.stem}\n"
            yield from _table(path)


def losses() -> Iterator[str]:
    """Lines of the reference of the losses: the class, the settings of the file, and what it got."""
    yield (
        "# Losses\n\nChosen with `loss=...`, in the order of `python train.py --help`; the arguments are "
        "`loss.temperature=0.1` and so on. What a loss got is the average of the seven STS tasks after "
        f"training MiniLM, which has 78.87 before ([Results](../results.md#{slug(SCORES, '-')})).\n"
    )
    header, scores = _scores()
    for path in files_of("loss").values():
        text = path.read_text("utf-8")
        target = re.search(r"^_target_: (\S+)", text, re.MULTILINE)
        yield f"## {path.stem}\n"
        yield from _table(path)
        found = curves(path.stem)
        if found is not None:
            yield f"<figure markdown=0>{draw(found)}<figcaption>{found.caption}</figcaption></figure>\n"
        if path.stem in scores:
            yield "\n".join(["What it got:\n", *header, *scores[path.stem], ""])
        if target is not None:
            yield f"::: {target[1]}\n    options:\n      show_root_heading: false\n      members: false\n"


def _scores() -> tuple[list[str], dict[str, list[str]]]:
    """Header of the table of losses in docs/results.md, and its rows by the loss that they name first."""
    text = (ROOT / "docs" / "results.md").read_text("utf-8")
    table = text[text.index(f"## {SCORES}\n") :].partition("\n## ")[0]
    lines = [line for line in table.splitlines() if line.startswith("|")]
    rows: dict[str, list[str]] = {}
    for line in lines[2:]:
        if found := re.match(r"\| `(\w+)`", line):
            rows.setdefault(found[1], []).append(line)
    return lines[:2], rows


def python() -> Iterator[str]:
    """Lines of the reference of the modules."""
    yield "# Python\n"
    for title, modules in PYTHON.items():
        yield f"## {title}\n"
        yield from (f"::: {module}\n" for module in modules)


def _table(path: Path) -> Iterator[str]:
    """Description, command and settings of a YAML file."""
    lines = path.read_text("utf-8").splitlines()
    header = list(takewhile(lambda line: line.startswith("#"), lines))
    opening = [line.removeprefix("#").strip() for line in header]
    commands = [line for line in opening if line.startswith(("python ", "sts-lightning "))]
    words = [line for line in opening if line not in commands and not line.startswith("@package")]
    if words:
        yield f"{' '.join(words)}\n".replace("<", "&lt;")
    if commands:
        yield "```\n" + "\n".join(commands) + "\n```\n"
    rows = list(_rows(lines[len(header) :]))
    if rows:
        yield "| setting | default | |\n|---|---|---|"
        yield from (
            f"| `{key}` | {f'`{value}`' if value else ''} | {comment} |" for key, value, comment in rows
        )
    yield ""


def _rows(lines: list[str]) -> Iterator[tuple[str, str, str]]:
    parents: list[str] = []
    above: list[str] = []  # a comment too long for the line of its setting stands above it
    for line in lines:
        if line.lstrip().startswith("#"):
            above.append(line.lstrip(" #"))
            continue
        found = SETTING.match(line)
        words, above = " ".join([*above, (found and found["comment"]) or ""]).strip(), []
        if found is None:
            continue
        depth = len(found["indent"]) // 2
        parents = [*parents[:depth], found["key"]]
        if parents[0] in ("defaults", "hydra") or found["key"] == "_target_" or not (found["value"] or words):
            continue
        value, comment = ((text or "").replace("|", "\\|") for text in (found["value"], words))
        yield ".".join(parents), value, comment.replace("<", "&lt;")
