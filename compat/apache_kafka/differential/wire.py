"""The few requests that the histories are made of, built by hand, the same bytes for either broker.

Versions are the newest without tagged fields, except where version 2 of transactions needs later ones (KIP-890).
"""

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ...support.clients.raw import RawConnection
from ...support.logs.segment_files import HEADER, LOG_OVERHEAD_BYTES

NONE, OFFSET_OUT_OF_RANGE, UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER, CONCURRENT_TRANSACTIONS = 0, 1, 3, 6, 51
COORDINATOR_STARTS = (14, 15, 16, 19)
"""The last is what Produce makes of the others."""
TOPIC, BROKER = 2, 4
SET = 0


class RefusedError(Exception):
    """The broker answered with an error code where the history needs none."""

    def __init__(self, what: str, code: int, message: str | None = None) -> None:
        super().__init__(f"{what}: error {code} {message or ''}")
        self.code = code


@dataclass(frozen=True)
class Fetched:
    log: bytes
    log_start: int
    high_watermark: int
    last_stable: int


class Reader:
    """Fields of a response, one after the other."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, layout: str) -> int:
        (value,) = struct.unpack_from(f">{layout}", self.data, self.at)
        self.at += struct.calcsize(f">{layout}")
        return int(value)

    def string(self) -> str | None:
        size = self.take("h")
        return None if size < 0 else self.bytes(size).decode()

    def bytes(self, size: int) -> bytes:
        found = self.data[self.at : self.at + size]
        self.at += size
        return found

    def compact_length(self) -> int:
        number = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number - 1
            shift += 7

    def skip_tags(self) -> None:
        for _ in range(self.compact_length() + 1):
            self.compact_length()
            self.bytes(self.compact_length() + 1)


def string(text: str | None) -> bytes:
    return struct.pack(">h", -1) if text is None else struct.pack(">h", len(text.encode())) + text.encode()


def array(items: Iterable[bytes]) -> bytes:
    found = list(items)
    return struct.pack(">i", len(found)) + b"".join(found)


def compact(data: bytes | None) -> bytes:
    """Return a compact string or bytes field."""
    if data is None:
        return b"\0"
    rest, size = len(data) + 1, bytearray()
    while rest > 0x7F:
        size.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes(size) + bytes([rest]) + data


class Wire:
    """A connection to one broker."""

    def __init__(self, bootstrap: str) -> None:
        host, _, port = bootstrap.rpartition(":")
        self.connection = RawConnection(host, int(port), 30.0)

    def close(self) -> None:
        self.connection.close()

    def _ask(self, api_key: int, version: int, body: bytes) -> Reader:
        return Reader(self.connection.request(api_key, version, body))

    def _ask_flexible(self, api_key: int, version: int, body: bytes) -> Reader:
        """Send a request with header v2, and read response header v1: the older ones followed by tags."""
        answer = self._ask(api_key, version, b"\0" + body + b"\0")
        answer.skip_tags()
        return answer

    # Topics

    def create_topic(self, topic: str, configs: Mapping[str, str]) -> None:
        settings = array(string(name) + string(value) for name, value in configs.items())
        one = string(topic) + struct.pack(">ih", 1, 1) + array([]) + settings
        answer = self._ask(19, 4, array([one]) + struct.pack(">i?", 30_000, False))
        answer.take("i"), answer.take("i"), answer.string()
        if code := answer.take("h"):
            raise RefusedError("CreateTopics", code, answer.string())

    def delete_topic(self, topic: str) -> None:
        answer = self._ask(20, 3, array([string(topic)]) + struct.pack(">i", 30_000))
        answer.take("i"), answer.take("i"), answer.string()
        if code := answer.take("h"):
            raise RefusedError("DeleteTopics", code)

    def set_configs(self, resource_type: int, name: str, configs: Mapping[str, str]) -> None:
        entries = array(string(key) + struct.pack(">b", SET) + string(value) for key, value in configs.items())
        answer = self._ask(44, 0, array([struct.pack(">b", resource_type) + string(name) + entries]) + b"\0")
        answer.take("i"), answer.take("i")
        if code := answer.take("h"):
            raise RefusedError("IncrementalAlterConfigs", code, answer.string())

    def configs(self, resource_type: int, name: str, names: Iterable[str]) -> dict[str, str | None]:
        asked = struct.pack(">b", resource_type) + string(name) + array(map(string, names))
        answer = self._ask(32, 1, array([asked]) + b"\0")
        answer.take("i"), answer.take("i")
        if code := answer.take("h"):
            raise RefusedError("DescribeConfigs", code, answer.string())
        answer.string(), answer.take("b"), answer.string()
        found: dict[str, str | None] = {}
        for _ in range(answer.take("i")):
            key = answer.string()
            found[key or ""] = answer.string()
            answer.bytes(3)  # read only, source, sensitive
            answer.take("i")  # no synonyms were requested
        return found

    # Records

    def produce(self, topic: str, batch: bytes, transactional_id: str | None = None) -> list[int]:
        """Produce v8; error code, base offset, log append time and log start offset of the answer."""
        data = struct.pack(">ii", 0, len(batch)) + batch
        body = string(transactional_id) + struct.pack(">hi", -1, 30_000) + array([string(topic) + array([data])])
        answer = self._ask(0, 8, body)
        answer.take("i"), answer.string(), answer.take("i"), answer.take("i")
        return [answer.take("h"), answer.take("q"), answer.take("q"), answer.take("q")]

    def fetch(self, topic: str, offset: int) -> tuple[int, Fetched]:
        """Send Fetch v5, read_uncommitted; return the error code and the result."""
        asked = struct.pack(">iqqi", 0, offset, 0, 64 << 20)
        body = struct.pack(">iiiib", -1, 0, 0, 64 << 20, 0) + array([string(topic) + array([asked])])
        answer = self._ask(1, 5, body)
        answer.take("i"), answer.take("i"), answer.string(), answer.take("i"), answer.take("i")
        code, high_watermark, last_stable, log_start = (answer.take(layout) for layout in "hqqq")
        for _ in range(max(0, answer.take("i"))):
            answer.bytes(16)
        records = answer.bytes(max(0, answer.take("i")))
        return code, Fetched(records, log_start, high_watermark, last_stable)

    def dump(self, topic: str) -> Fetched:
        """Fetch every batch of the log, whole, from offset 0 (or the log start) to the high watermark."""
        offset, parts = 0, bytearray()
        code, found = self.fetch(topic, offset)
        if code == OFFSET_OUT_OF_RANGE:
            offset = self.offset_at(topic, -2)[1]
            code, found = self.fetch(topic, offset)
        while code == NONE and found.log:
            at = 0
            while at < len(found.log):
                header = HEADER.unpack_from(found.log, at)
                base, size, last_delta = header[0], header[1] + LOG_OVERHEAD_BYTES, header[6]
                if at + size > len(found.log):
                    break
                parts += found.log[at : at + size]
                offset = base + last_delta + 1
                at += size
            if offset >= found.high_watermark:
                break
            code, found = self.fetch(topic, offset)
        if code:
            raise RefusedError("Fetch", code)
        return Fetched(bytes(parts), found.log_start, found.high_watermark, found.last_stable)

    def offset_at(self, topic: str, timestamp: int) -> list[int]:
        """Send ListOffsets v1; return the timestamp and offset. -2 asks for the log start, -1 for the end."""
        asked = struct.pack(">iq", 0, timestamp)
        answer = self._ask(2, 1, struct.pack(">i", -1) + array([string(topic) + array([asked])]))
        answer.take("i"), answer.string(), answer.take("i"), answer.take("i")
        if code := answer.take("h"):
            raise RefusedError("ListOffsets", code)
        return [answer.take("q"), answer.take("q")]

    def delete_records(self, topic: str, offset: int) -> list[int]:
        """Send DeleteRecords v1; return the low watermark and the error code."""
        asked = struct.pack(">iq", 0, offset)
        answer = self._ask(21, 1, array([string(topic) + array([asked])]) + struct.pack(">i", 30_000))
        answer.take("i"), answer.take("i"), answer.string(), answer.take("i"), answer.take("i")
        return [answer.take("q"), answer.take("h")]

    # Transactions

    def find_transaction_coordinator(self, transactional_id: str) -> int:
        """FindCoordinator v1, for its side effect: the topic of the transaction log is made. The error code."""
        answer = self._ask(10, 1, string(transactional_id) + b"\1")
        answer.take("i")
        return answer.take("h")

    def init_producer_id(self, transactional_id: str) -> tuple[int, int, int]:
        """InitProducerId v1; error code, producer id, epoch."""
        answer = self._ask(22, 1, string(transactional_id) + struct.pack(">i", 600_000))
        answer.take("i")
        return answer.take("h"), answer.take("q"), answer.take("h")

    def new_producer_id(self) -> int:
        """InitProducerId v1 without a transactional id: a producer id never given before."""
        answer = self._ask(22, 1, string(None) + struct.pack(">i", 0))
        answer.take("i"), answer.take("h")
        return answer.take("q")

    def add_partition(self, topic: str, transactional_id: str, producer_id: int, epoch: int) -> int:
        """AddPartitionsToTxn v2; the partition's error code."""
        body = string(transactional_id) + struct.pack(">qh", producer_id, epoch)
        answer = self._ask(24, 2, body + array([string(topic) + array([struct.pack(">i", 0)])]))
        answer.take("i"), answer.take("i"), answer.string(), answer.take("i"), answer.take("i")
        return answer.take("h")

    def end_txn(self, transactional_id: str, producer_id: int, epoch: int, *, commit: bool) -> int:
        """EndTxn v2; the error code."""
        body = string(transactional_id) + struct.pack(">qh?", producer_id, epoch, commit)
        answer = self._ask(26, 2, body)
        answer.take("i")
        return answer.take("h")

    def produce_v12(self, topic: str, batch: bytes, transactional_id: str) -> list[int]:
        """Produce v12, which adds the partition to the transaction; as `produce`."""
        data = b"\2" + struct.pack(">i", 0) + compact(batch) + b"\0"
        one = b"\2" + compact(topic.encode()) + data + b"\0"
        body = compact(transactional_id.encode()) + struct.pack(">hi", -1, 30_000) + one
        answer = self._ask_flexible(0, 12, body)
        answer.compact_length(), answer.bytes(answer.compact_length()), answer.compact_length(), answer.take("i")
        return [answer.take("h"), answer.take("q"), answer.take("q"), answer.take("q")]

    def end_txn_v5(self, transactional_id: str, producer_id: int, epoch: int, *, commit: bool) -> tuple[int, int, int]:
        """Send EndTxn v5; return the error code, and the producer id and epoch to continue with."""
        body = compact(transactional_id.encode()) + struct.pack(">qh?", producer_id, epoch, commit)
        answer = self._ask_flexible(26, 5, body)
        answer.take("i")
        return answer.take("h"), answer.take("q"), answer.take("h")
