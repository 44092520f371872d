"""Count lines by folder: python tools/size.py src [--files].

`pure` is what remains without blanks, comments, docstrings and imports.
"""

import ast
import sys
from collections import defaultdict
from pathlib import Path

Counts = tuple[int, int, int, int]
"""Files, lines, lines of imports and lines of pure code."""


def counts(path: Path) -> Counts:
    """Return the counts of one file. A line that holds code and a comment is code."""
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    imports: set[int] = set()
    left_out = {n for n, line in enumerate(lines, 1) if not line.strip() or line.strip().startswith("#")}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            imports.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        elif (  # a docstring, also one below a constant
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            left_out.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return 1, len(lines), len(imports), len(lines) - len(left_out | imports)


def main(folder: Path, each_file: bool) -> None:
    """Print a line for each folder, or each file, and the sum."""
    rows: defaultdict[str, list[Counts]] = defaultdict(list)
    for path in sorted(folder.rglob("*.py")):
        rows[str((path if each_file else path.parent).relative_to(folder))].append(counts(path))
    print(f"{'files':>6} {'lines':>7} {'imports':>8} {'pure':>7}")
    everything = [row for found in rows.values() for row in found]
    for name, some in [*rows.items(), ("sum", everything)]:
        files, lines, imports, pure = (sum(column) for column in zip(*some, strict=True))
        print(f"{files:>6} {lines:>7} {imports:>8} {pure:>7}  {name}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), "--files" in sys.argv[2:])
