"""Shared code of the drivers in Python: lines, sessions, and the outcome of one action."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Mapping
from typing import Any, Protocol

Line = dict[str, Any]


class Refused(Exception):
    """An action ended with an error that the client did not raise."""

    def __init__(self, result: str, said: str = "", detail: str = "") -> None:
        super().__init__(result)
        self.result, self.said, self.detail = result, said, detail


class Unsupported(Exception):
    """The client cannot do that."""


class Session(Protocol):
    """One login's clients."""

    def close(self) -> None: ...


def serve(
    client: str,
    actions: Mapping[str, Callable[[Any, Line], object]],
    opened: Callable[[Line], Session],
    told: Callable[[BaseException], tuple[str, str]],
) -> None:
    """Answer lines until the input ends.

    Args:
        opened: Returns a session for the login of a line.
        told: Returns the result and the broker's message, from the client's exception.
    """
    answers, sys.stdout = sys.stdout, sys.stderr
    sessions: dict[str, Session] = {}

    def answer(line: Line) -> Line:
        if line["action"] == "actions":
            return {"actions": sorted(actions), "client": client}
        if line["action"] not in actions:
            return {"result": "unsupported", "said": "", "detail": line["action"]}
        login = json.dumps({name: value for name, value in line.items() if name not in ("action", "arguments", "keep")})
        is_kept = bool(line.get("keep"))
        try:
            if login not in sessions:
                sessions[login] = opened(line)
            actions[line["action"]](sessions[login], line.get("arguments", {}))
        except Unsupported as error:
            return {"result": "unsupported", "said": "", "detail": str(error)}
        except Refused as error:
            return {"result": error.result, "said": error.said, "detail": error.detail}
        except Exception as error:  # noqa: BLE001 - every exception of a client is reported
            result, said = told(error)
            return {"result": result, "said": said, "detail": f"{type(error).__name__}: {error}"[:2000]}
        finally:
            if not is_kept and login in sessions:
                with contextlib.suppress(Exception):
                    sessions.pop(login).close()
        return {"result": "ok", "said": "", "detail": ""}

    for text in sys.stdin:
        print(json.dumps(answer(json.loads(text))), file=answers, flush=True)
    for session in sessions.values():
        with contextlib.suppress(Exception):
            session.close()


def missing(what: str) -> None:
    """Report that this driver cannot run."""
    print(f"not run: needs {what}", flush=True)
    sys.exit(77)
