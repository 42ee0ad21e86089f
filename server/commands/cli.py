"""The command `ottla`: runs one command line, and returns an exit code.

Exit codes: 0 success, 1 rejected by the broker or invalid file, 2 usage error, unusable data directory, or no broker
reachable.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress

from .frame.command_line import parse_command_line
from .frame.errors import DONE, INTERRUPTED, WRONG_CALL, CommandError, ReaderGoneError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line; return the exit code. SystemExit for a usage error, or after a help text."""
    return with_exit_code(lambda: _run_command(sys.argv[1:] if arguments is None else arguments))


def _run_command(words: Sequence[str]) -> int | None:
    asked = parse_command_line(words)
    return asked.command.run(asked.options)


def with_exit_code(command: Callable[[], int | None]) -> int:
    """Run a command; return its result as an exit code, with a line on standard error unless that is 0."""
    try:
        code = _flushed(command)
        return DONE if code is None else code
    except CommandError as error:
        from .frame.printing import visible  # nothing else here prints

        print(f"ottla: {visible(' '.join(str(error).split()))}", file=sys.stderr)
        return error.exit_code
    except UnicodeError as error:
        # An argument that is not valid in a request or a host name.
        found = f"expected UTF-8, found {error.object[:60]!r}" if isinstance(error, UnicodeEncodeError) else str(error)
        print(f"ottla: {found}", file=sys.stderr)
        return WRONG_CALL
    except KeyboardInterrupt:
        return INTERRUPTED
    except (
        BrokenPipeError,
        ReaderGoneError,
    ):  # `ottla … | head`: the reader has closed the pipe, which is not an error
        with suppress(OSError, ValueError):  # the rest of the buffer is discarded, without a message by Python
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE


def _flushed(command: Callable[[], int | None]) -> int | None:
    """Run a command and write everything that it printed, including a help text.

    BrokenPipeError if the reader has closed the pipe.
    """
    try:
        code = command()
    except SystemExit:  # after a help text
        if sys.stdout is not None:
            sys.stdout.flush()
        raise
    if sys.stdout is not None:
        sys.stdout.flush()
    return code
