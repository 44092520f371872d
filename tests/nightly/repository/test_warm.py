"""Scripts in forked processes, against interpreters of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.warm import WarmInterpreter

SCRIPT = """
import multiprocessing, os, signal, sys
import beside
print(sys.argv[1:], os.getcwd(), os.environ["MARK"], __name__, __file__, multiprocessing.get_start_method())
print(repr(sys.stdin.read()), file=sys.stderr)
how = sys.argv[1]
if how == "kill":
    sys.stdout.flush()
    os.kill(os.getpid(), signal.SIGTERM)
if how == "raise":
    raise ValueError("wrong")
sys.exit({"number": 75, "text": "error: wrong"}.get(how))
"""


@pytest.mark.parametrize("how", ["end", "number", "text", "raise", "kill"])
def test_a_script_runs_and_ends_as_in_its_own_interpreter(
    how: str, warm: WarmInterpreter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script, folder = tmp_path / "code" / "script.py", tmp_path / "work"
    for path in (script.parent, folder):
        path.mkdir()
    script.write_text(SCRIPT)
    (script.parent / "beside.py").touch()
    monkeypatch.setenv("MARK", how)
    expected = subprocess.run(
        [sys.executable, str(script), how, "a=b c"],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    found = warm.run(script, [how, "a=b c"], folder, timeout=60)
    assert (found.returncode, found.stdout) == (expected.returncode, expected.stdout)
    lines = [text.splitlines() for text in (found.stderr, expected.stderr)]
    assert (lines[0][0], lines[0][-1]) == (lines[1][0], lines[1][-1])  # tracebacks have other files


def test_a_script_that_hangs_is_killed(warm: WarmInterpreter, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import time\nprint('begun', flush=True)\ntime.sleep(60)")
    with pytest.raises(subprocess.TimeoutExpired) as caught:
        warm.run(script, [], tmp_path, timeout=1)
    assert caught.value.stdout in (b"begun\n", b"")
