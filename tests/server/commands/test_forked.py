"""A process that is forked in place of started is, for a test, the one that Python would have begun: `support.commands.forked`."""

import signal
import subprocess
from pathlib import Path

import pytest

from support.commands.ended import ended
from support.commands.forked import ran, started
from support.sizes import FULL


def test_it_has_its_words_environment_directory_and_streams(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    code = "import os, sys; print(sys.argv, dict(os.environ), os.getcwd(), sys.path[0], __name__); print(input(), file=sys.stderr)"
    process = started("-c", code, "a", "b c", env={"A": "1"}, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    with ended(process):
        out, err = process.communicate("asked\n", timeout=60)
    assert out == f"['-c', 'a', 'b c'] {{'A': '1'}} {tmp_path}  __main__\n"
    assert (err, process.returncode) == ("asked\n", 0)


@pytest.mark.parametrize(
    ("code", "ends"),
    [
        ("", 0),
        ("raise SystemExit(3)", 3),
        ("import os; os._exit(255)", 255),
        ("1 / 0", 1),
        ("import os; os.kill(os.getpid(), 9)", -signal.SIGKILL),
    ],
)
def test_it_says_how_it_ended(code: str, ends: int) -> None:
    done = ran("-c", f"import atexit, sys; atexit.register(print, 'over')\n{code}")
    assert (done.returncode, done.stdout) == (ends, "" if "os." in code else "over\n")
    assert ("ZeroDivisionError" in done.stderr) == (code == "1 / 0")


def test_it_takes_signals_and_others_live_on() -> None:
    with ended(started("-c", "print(input())", stdin=subprocess.PIPE)) as other:
        with ended(started("-c", "import signal; print('ready', flush=True); signal.pause()")) as process:
            assert process.stdout is not None and process.stdout.readline() == "ready\n"
            assert process.poll() is None
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(0.001)
            process.terminate()
            assert process.wait(60) == process.poll() == -signal.SIGTERM
        assert other.communicate("alive\n", timeout=60)[0] == "alive\n"


def test_a_broker_is_loaded_unless_it_is_to_begin_from_nothing() -> None:
    code = "import sys; print('ottla.server.commands.serve' in sys.modules)"
    assert ran("-c", code).stdout == f"{not FULL}\n"
    assert ran("-c", code, cold=True).stdout == "False\n"
