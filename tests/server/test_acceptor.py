"""Errors of accept(): whatever the system says of one connection, or of all, the next client is served."""

from __future__ import annotations

import errno
import logging
import socket
from collections import deque
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.storage.files import OsFiles
from support.conversation import address
from support.raw_client import RawClient
from support.served import serving

OF_ONE = ["EPROTO", "EPERM", "ENETDOWN", "EHOSTUNREACH", "EHOSTDOWN", "ENETUNREACH", "ECONNABORTED", "EOPNOTSUPP"]
OF_ALL = ["EMFILE", "ENFILE", "ENOBUFS", "ENOMEM", "EINVAL", "EIO"]


class Listening(socket.socket):
    """A listening socket with bad news: one after the other is told instead of a connection, then all is well."""

    def __init__(self, listening: socket.socket, news: list[int]) -> None:
        super().__init__(fileno=listening.detach())
        self.setblocking(False)
        self.news = deque(news)
        self.lost = sum(errno.errorcode[number] in OF_ONE for number in news)
        """How many connections are gone with their errors."""

    def accept(self) -> tuple[socket.socket, Any]:
        if not self.news:
            return super().accept()
        number = self.news.popleft()
        if self.lost:
            super().accept()[0].close()
        raise OSError(number, errno.errorcode[number])


async def serves_after(data_dir: Path, news: list[int]) -> bool:
    """Whether clients are served by a broker that is told the `news`."""
    async with serving(data_dir, OsFiles()) as served:
        broker = served.broker
        (node,) = broker.nodes
        (listener,) = node.listeners
        listener.close()
        listener.bind(10)
        assert listener.socket is not None
        listener.socket = listening = Listening(listener.socket, news)
        broker.accept_on(node)

        def connect() -> bool:
            for _ in range(listening.lost):
                with socket.create_connection(address(broker), timeout=60) as lost:
                    assert not lost.recv(1)
            with RawClient(*address(broker)) as client:
                return bool(client.ask(MetadataRequest(topics=()), 12).error_code == ErrorCode.NONE)

        answer = await trio.to_thread.run_sync(connect)
        assert not listening.news
        return answer


@pytest.mark.parametrize("name", OF_ONE)
async def test_an_error_of_one_connection_costs_that_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    assert await serves_after(tmp_path, [getattr(errno, name)] * 3)
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize("name", OF_ALL)
async def test_any_other_error_is_told_once_and_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, autojump_clock: trio.testing.MockClock, name: str
) -> None:
    assert await serves_after(tmp_path, [getattr(errno, name)] * 5)
    told = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(told) == 1 and told[0].startswith("cannot accept on 127.0.0.1:") and name in told[0]
