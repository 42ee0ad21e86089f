"""The command `ottla`: one command line in, an exit code out.

Exit codes: 0 done, 1 the broker or a file said no, 2 a wrong call, an unusable data directory, or nobody answers.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress

from .frame.command_line import understand
from .frame.errors import DONE, INTERRUPTED, WRONG_CALL, CommandError, ReaderGoneError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line; returns the exit code. SystemExit for a call that is wrong, or after a help text."""
    return with_exit_code(lambda: _carry_out(sys.argv[1:] if arguments is None else arguments))


def _carry_out(words: Sequence[str]) -> int | None:
    asked = understand(words)
    return asked.command.run(asked.options)


def with_exit_code(command: Callable[[], int | None]) -> int:
    """Run a command; what it ends with as an exit code, and a line on standard error where that is not 0."""
    try:
        code = _flushed(command)
        return DONE if code is None else code
    except CommandError as error:
        from .frame.printing import visible  # nothing else here prints

        print(f"ottla: {visible(' '.join(str(error).split()))}", file=sys.stderr)
        return error.exit_code
    except UnicodeError as error:
        # An argument that no request, and no name of a host, can have.
        found = f"expected UTF-8, found {error.object[:60]!r}" if isinstance(error, UnicodeEncodeError) else str(error)
        print(f"ottla: {found}", file=sys.stderr)
        return WRONG_CALL
    except KeyboardInterrupt:
        return INTERRUPTED
    except (BrokenPipeError, ReaderGoneError):  # `ottla … | head`: nobody reads on, which is no error of ours
        with suppress(OSError, ValueError):  # what is left in the buffer goes nowhere, and Python says nothing of it
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE


def _flushed(command: Callable[[], int | None]) -> int | None:
    """Run a command; all that it printed has been written at the end, a help text too. BrokenPipeError if the reader has gone."""
    try:
        code = command()
    except SystemExit:  # after a help text
        if sys.stdout is not None:
            sys.stdout.flush()
        raise
    if sys.stdout is not None:
        sys.stdout.flush()
    return code
