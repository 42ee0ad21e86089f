"""Feeds a topic at a steady rate: the load for the measurements of `bench.latency`.

    python -m compat.bench.latency.feeder PORT TOPIC BYTES_A_SECOND SECONDS FILE

Sends the batches of FILE, which follow one another with base offset 0, one a request with acks=1, again and
again. Open loop on one connection: delays are caught up. Prints the number of bytes sent.
"""

import itertools
import struct
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from ...support.clients.raw import RawConnection, produce_body, produce_result
from ...support.logs.segment_files import LOG_OVERHEAD_BYTES


def main(port: int, topic: str, rate: float, seconds: float, file: Path) -> None:
    bodies = [produce_body(topic, 0, batch) for batch in batches(file.read_bytes())]
    sent_bytes = 0
    with RawConnection("127.0.0.1", port) as connection:
        begun_s = time.perf_counter()
        for body in itertools.cycle(bodies):
            due_s = sent_bytes / rate
            if due_s >= seconds:
                break
            if (early_s := begun_s + due_s - time.perf_counter()) > 0:
                time.sleep(early_s)
            error_code, _ = produce_result(connection.request(0, 3, body), topic)
            if error_code:
                raise RuntimeError(f"produce failed with error {error_code}")
            sent_bytes += len(body)
    print(sent_bytes)


def batches(data: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(data):
        end = at + LOG_OVERHEAD_BYTES + struct.unpack_from(">i", data, at + 8)[0]
        yield data[at:end]
        at = end


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], float(sys.argv[3]), float(sys.argv[4]), Path(sys.argv[5]))
