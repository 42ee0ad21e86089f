"""The admin listener, for programs that work with the broker, and for people: its calls and the status page."""

from __future__ import annotations

import logging

from ..page import log_tail
from ..page.pages import Pages
from .answering import Answering
from .call import Supervisor
from .listening import HttpListener
from .table import CallTable

log = logging.getLogger("ottla.admin")


class AdminHttp(HttpListener):
    """The admin listener of one broker; arguments of `HttpListener`."""

    async def run(self, supervisor: Supervisor) -> None:
        """Answer requests until cancelled, across the broker's restarts."""
        log.info("admin HTTP listener on %s", self.address)
        answering, pages = Answering(supervisor, CallTable()), Pages(supervisor, self._access.page_token)
        with log_tail.keep_lines():
            await self._serve_all(answering, pages)
