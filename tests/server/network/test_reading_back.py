"""Records of many producers, sent at the same time and in pieces, are unchanged when they are read back from a real broker."""

from __future__ import annotations

import random
import struct
from pathlib import Path
from typing import Any

import pytest
import trio

from ottla.protocol import compression
from ottla.protocol.compression import Codec
from ottla.protocol.connection import encode_request, parse_response
from ottla.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.records import batches
from ottla.server.client.connection import api_of
from ottla.storage.disk.os_files import OsFiles
from support.broker.conversation import address, create_topic, fetch, produce_request
from support.broker.served import Served, serving
from support.logs.batches import batch
from support.noted import noted
from support.sizes import FULL, size

PRODUCERS, BATCHES = 24, size(30, 300)
TOPICS: dict[str, dict[str, Any]] = {
    "plain": {},
    "flushed": {"flush_messages": 1},
    "packed": {"compression_type": "zstd"},
}
SIZES, WEIGHTS = (10, 200, 3_000, 20_000, 300_000), (20, 20, 5, 3, 1)
NOW_MS = 1_700_000_000_000


def other_request(chance: random.Random, topic: str) -> tuple[Any, int]:
    """Return a request that is no Produce, and a version of it."""
    if chance.random() < 0.5:
        return MetadataRequest(topics=(MetadataRequestTopic(name=topic),)), chance.randint(9, 12)
    asked = DescribeConfigsResource(resource_type=2, resource_name=topic, configuration_keys=None)
    return DescribeConfigsRequest(resources=(asked,)), chance.randint(1, 4)


class Producer:
    """A client with a partition of its own, and all that it sends: records of random bytes, acknowledged or not."""

    def __init__(self, number: int, chance: random.Random) -> None:
        self.topic, self.partition = [*TOPICS][number % len(TOPICS)], number // len(TOPICS)
        self.values: list[bytes] = []
        """All values, in the order of their offsets."""
        self._chance = chance
        self._frames: list[bytes] = []
        self._answers: list[tuple[int, Any, int]] = []
        """Number, API and version of each request that has an answer."""
        for _ in range(BATCHES):
            if chance.random() < 0.2:
                self._add(*other_request(chance, self.topic))
            (size_bytes,) = chance.choices(SIZES, WEIGHTS)
            values = [chance.randbytes(size_bytes) for _ in range(chance.randint(1, 3))]
            records = batch(*((None, value) for value in values), timestamp=NOW_MS, codec=chance.choice([*Codec]))
            acks = chance.choice((-1, 1, 0))
            self._add(produce_request(self.topic, records, self.partition, acks), chance.randint(7, 12), bool(acks))
            self.values += values

    def _add(self, message: Any, version: int, has_answer: bool = True) -> None:
        number, api = len(self._frames), api_of(message)
        self._frames.append(encode_request(api, version, number, "c", message))
        if has_answer:
            self._answers.append((number, api, version))

    async def run(self, served: Served) -> None:
        stream = await trio.open_tcp_stream(*address(served.broker))
        async with stream, trio.open_nursery() as nursery:
            nursery.start_soon(self._receive, stream)
            for frame in self._frames:
                at = 0
                while at < len(frame):
                    end = self._chance.choice((len(frame), self._chance.randint(at + 1, len(frame))))
                    await stream.send_all(frame[at:end])
                    at = end
                    for _ in range(self._chance.randint(0, 10)):
                        await trio.lowlevel.checkpoint()
            await stream.send_eof()

    async def _receive(self, stream: trio.SocketStream) -> None:
        received = bytearray()
        async for data in stream:
            received += data
            while len(received) >= 4 and len(received) >= (end := 4 + struct.unpack_from(">i", received)[0]):
                number, api, version = self._answers.pop(0)
                told, body = parse_response(api, version, bytes(received[4:end]))
                assert told == number
                if api.key == 0:
                    assert body.responses[0].partition_responses[0].error_code == 0
                del received[:end]
        assert not received and not self._answers

    def read_back(self, client: Any) -> None:
        found: list[bytes] = []
        while len(found) < len(self.values):
            data = fetch(client, self.topic, len(found), self.partition).records
            assert isinstance(data, bytes | memoryview) and data, (
                f"{len(found)} of {len(self.values)} records of {self.topic}-{self.partition}"
            )
            for each in batches(data):
                assert each.is_crc_valid()
                found += [bytes(record.value or b"") for record in each.records()]
        assert found == self.values


@pytest.mark.parametrize("number", range(size(1, 4)))
async def test_records_that_many_producers_send_in_pieces_are_read_back_unchanged(
    tmp_path: Path, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seed = random.getrandbits(32) if FULL else number
    with noted(seed):
        chance = random.Random(seed)
        producers = [Producer(at, random.Random(chance.getrandbits(32))) for at in range(PRODUCERS)]
        async with serving(tmp_path, OsFiles(), log_cleaner_enable="false") as served:
            for name, configs in TOPICS.items():
                await served.ask(create_topic, name, PRODUCERS // len(TOPICS), retention_ms=-1, **configs)
            monkeypatch.setattr(compression, "_LOADED", {Codec.NONE: compression._LOADED[Codec.NONE]})
            with trio.fail_after(size(60, 600)):
                async with trio.open_nursery() as nursery:
                    for each in producers:
                        nursery.start_soon(each.run, served)
            for each in producers:
                await trio.to_thread.run_sync(each.read_back, served.client)
