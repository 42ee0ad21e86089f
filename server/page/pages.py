"""Table of the pages, and responses to requests for them."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from functools import partial
from typing import NamedTuple
from urllib.parse import unquote

import trio

from ..broker.broker import Broker
from ..broker.supervisor import Supervisor
from ..control.broker_state import version
from ..runtime.errors import ControlError
from ..runtime.threads import in_worker
from . import rendering
from .rendering import Drawn, Viewer
from .section import EVENTS, Page, Section
from .views import access, connections, faults, groups, keys, overview, partition, producers, records, topics

log = logging.getLogger("ottla.page")

View = Callable[[Broker, Mapping[str, str]], Awaitable[Page]]
"""Function that makes a page, on Trio's thread in time slices, from the fields of path and query. A `ControlError` is
shown instead.
"""


async def _subjects(broker: Broker, fields: Mapping[str, str]) -> Page:
    from .views import schemas  # The admin listener of a broker without schemas must not load the registry.

    return await schemas.view(broker, fields)


async def _subject(broker: Broker, fields: Mapping[str, str]) -> Page:
    from .views import schemas

    return await schemas.subject_page(broker, fields)


VIEWS: dict[str, View] = {
    "/": overview.view,
    "/topics": topics.view,
    "/topics/{topic}": topics.topic_page,
    "/topics/{topic}/options": topics.options,
    "/topics/{topic}/keys": keys.view,
    "/topics/{topic}/records": records.view,
    "/topics/{topic}/partitions/{partition}": partition.view,
    "/topics/{topic}/partitions/{partition}/producers": producers.view,
    "/schemas": _subjects,
    "/schemas/{subject}": _subject,
    "/groups": groups.view,
    "/groups/{group}": groups.group_page,
    "/transactions": groups.transactions,
    "/connections": connections.view,
    "/quotas": access.quotas,
    "/acls": access.acls,
    "/faults": faults.view,
    "/log": connections.log,
}
"""Pages by path; `{name}` is a segment, percent-decoded, that becomes the field of that name."""

NAVIGATION = (
    ("/", "Overview"),
    ("/topics", "Topics"),
    ("/schemas", "Schemas"),
    ("/groups", "Groups"),
    ("/transactions", "Transactions"),
    ("/connections", "Connections"),
    ("/quotas", "Quotas"),
    ("/acls", "ACLs"),
    ("/faults", "Faults and clock"),
    ("/log", "Log"),
)
"""Paths and names of the pages in the navigation."""

STATIC = "/static/"
HTML = "text/html; charset=utf-8"
POLICY = (
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self' data:",
    "connect-src 'self'",
    "form-action 'self'",
    "base-uri 'none'",
    "frame-ancestors 'none'",
)
HEADERS = (
    ("content-security-policy", "; ".join(POLICY)),
    ("cache-control", "no-store"),
    ("referrer-policy", "no-referrer"),
    ("x-content-type-options", "nosniff"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
)
"""Headers of all responses of the page: it loads nothing from other servers, and no other page can embed it."""
EVERY_S = 1.0
"""Interval at which a watched page is made again. Pages that are not watched are not made."""
SHARE, RARELY_S = 0.015, 15.0
"""Maximum share of a core that making pages takes, and the longest interval: a page of thousands of rows is made less
often, but no less than this.
"""
STREAMS_MAX = 16
"""Maximum number of pages that are watched at a time, each by a connection of its own; others stay as they were loaded."""


class PageReply(NamedTuple):
    """Response with a whole page."""

    status: int
    body: bytes
    content_type: str = HTML
    headers: tuple[tuple[str, str], ...] = HEADERS


class Stream(NamedTuple):
    """Response that is sent in pieces until the client disconnects: `text/event-stream`."""

    pieces: AsyncGenerator[bytes]
    headers: tuple[tuple[str, str], ...] = HEADERS


class Pages:
    """The pages of one listener.

    Args:
        supervisor: Supervisor of the broker that is shown.
        token: The token of the page's calls.
    """

    def __init__(self, supervisor: Supervisor, token: str) -> None:
        self._supervisor = supervisor
        self._look = Viewer(token, version(), NAVIGATION)
        self._streams = 0

    @staticmethod
    def has(path: str) -> bool:
        """Return whether `path` is that of a page, or of a file that pages load."""
        return path.startswith(STATIC) or _match_view(path) is not None

    async def answer(self, path: str, query: Mapping[str, str]) -> PageReply | Stream:
        """Return the page at `path`, for which `has` is true; with the field `events` its changes, as they happen."""
        if path.startswith(STATIC):
            return await self._static(path.removeprefix(STATIC))
        found = _match_view(path)
        assert found is not None
        view, fields = found
        fields = {**query, **fields}
        if EVENTS in query:
            if self._streams >= STREAMS_MAX:
                return self._text_reply(503, f"too many open pages (limit {STREAMS_MAX}); this page does not update")
            return Stream(self._events(view, fields))
        try:
            page = await self._load_page(view, fields)
            return PageReply(200, await in_worker(partial(_html, look=self._look), page))
        except ControlError as error:
            return await self._refused(error)
        except Exception:
            log.exception("cannot render the page %s", path)
            return self._text_reply(500, "internal error while rendering this page; see the broker's log")

    async def _static(self, name: str) -> PageReply:
        content = await in_worker(rendering.static, name)
        if content is None:
            return self._text_reply(404, "file not found")
        kind = rendering.KINDS[name[name.rindex(".") :]]
        return PageReply(200, content, kind)

    def _text_reply(self, status: int, sentence: str) -> PageReply:
        return PageReply(status, sentence.encode() + b"\n", "text/plain; charset=utf-8")

    async def _refused(self, error: ControlError) -> PageReply:
        page = Page("Error", "", (Section("refused", "refused", str(error)),))
        return PageReply(error.kind.value, await in_worker(partial(_html, look=self._look), page))

    async def ask_for_token(self) -> PageReply:
        """Return the page that asks for the token, if the listener has one."""
        return PageReply(401, (await in_worker(rendering.render_plain, "login.html")).encode())

    async def _load_page(self, view: View, fields: Mapping[str, str]) -> Page:
        return await self._supervisor.call(view, fields)

    async def _events(self, view: View, fields: Mapping[str, str]) -> AsyncGenerator[bytes]:
        self._streams += 1
        drawn: Drawn | None = None
        try:
            while True:
                # The thread's own time, so that waits on a busy machine do not count. Work of other tasks on it during the
                # wait does count.
                began_s, took_s = time.thread_time(), 0.0
                try:
                    page = await self._load_page(view, fields)
                except ControlError as error:
                    # Between two runs of the broker nothing can be shown; the page keeps its last state.
                    yield event("gone", [json.dumps(str(error))])
                else:
                    took_s = time.thread_time() - began_s
                    is_first = drawn is None  # the first time, everything is drawn
                    lines, drawn, drew_s = await in_worker(partial(_changes, last=drawn), page)
                    took_s = 0.0 if is_first else took_s + drew_s
                    yield event("changes", lines)
                await trio.sleep(pause_s(took_s))
        finally:
            self._streams -= 1


def _html(page: Page, look: Viewer) -> bytes:
    # A directory may have a name that is not UTF-8.
    return rendering.render_document(page, look).encode(errors="backslashreplace")


def _changes(page: Page, last: Drawn | None) -> tuple[list[str], Drawn, float]:
    """Return `rendering.changes`, and the seconds of CPU time that it took."""
    began_s = time.thread_time()
    lines, drawn = rendering.changes(page, last)
    return lines, drawn, time.thread_time() - began_s


def pause_s(took_s: float) -> float:
    """Return the pause after making a page that took this many seconds of CPU time."""
    return max(EVERY_S, min(RARELY_S, took_s / SHARE))


def event(kind: str, lines: list[str]) -> bytes:
    """Return an event in the format of `text/event-stream`.

    Without lines it is a comment, which shows whether the client is still connected.
    """
    if not lines:
        return b":\n\n"
    data = "".join(f"data: {line}\n" for line in lines)
    return f"event: {kind}\n{data}\n".encode()


def _match_view(path: str) -> tuple[View, dict[str, str]] | None:
    segments = path.split("/")
    for template, view in VIEWS.items():
        wanted = template.split("/")
        if len(wanted) != len(segments):
            continue
        fields = {}
        for name, segment in zip(wanted, segments, strict=True):
            if name.startswith("{"):
                fields[name[1:-1]] = unquote(segment, errors="replace")
                if not segment:
                    break
            elif name != segment:
                break
        else:
            return view, fields
    return None
