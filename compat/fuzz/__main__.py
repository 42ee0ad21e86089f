"""200 000 damaged frames of real clients; the broker serves on, within its memory, and answers others meanwhile.

Records what confluent-kafka, kafka-python and aiokafka send, damages it (`mutate.py`, seed printed) and sends it to the
same kind of broker, one by one. After every few thousand frames an ordinary client must still be served.
"""

import argparse
import random
import socket
import sys
import time
from collections import Counter

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from ..support.clients import create_topic
from ..support.ottla_process import OttlaProcess
from ..support.suite import NotRunError, Options, Suite, run_suite
from .mutate import mutate
from .record import RecordingProxy, sessions

FRAMES, QUICK_FRAMES = 200_000, 20_000
CHECK_EVERY = 10_000
# A damaged JoinGroup or Fetch may rightly wait for minutes; the next connection does not.
PATIENCE_S = 0.02
MAX_RESIDENT_BYTES = 400 << 20
OVERRIDES = {
    # What a damaged CreateTopics rightly makes must not fill the machine's disk with directories.
    "num.partitions": "1",
    "offsets.topic.num.partitions": "4",
    "socket.request.max.bytes": str(4 << 20),
}


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seed", type=int, help="repeat a run; without it a new seed is drawn and printed")
    parser.add_argument("--frames", type=int, help=f"how many; default {FRAMES}, quick {QUICK_FRAMES}")


def body(suite: Suite, options: Options) -> None:
    if options.broker or options.against != "ottla":
        raise NotRunError("its own Ottla, since it judges the process")
    seed = options.rest.seed if options.rest.seed is not None else random.SystemRandom().randrange(2**32)
    count = options.rest.frames or (QUICK_FRAMES if options.quick else FRAMES)
    suite.note(f"seed {seed}")
    proxy = RecordingProxy()
    overrides = OVERRIDES | {"advertised.listeners": f"PLAINTEXT://127.0.0.1:{proxy.port}"}
    with OttlaProcess(profile="dev", overrides=overrides, keep=options.keep) as broker:
        proxy.start(broker.bootstrap)
        sessions(f"127.0.0.1:{proxy.port}")
        frames = proxy.stop()
        suite.check("frames were recorded", len(frames) > 50, f"{len(frames)} different ones")
        keys = sorted({int.from_bytes(frame[4:6], "big") for frame in frames})
        suite.note(f"API keys in them: {', '.join(map(str, keys))}")
    with OttlaProcess(profile="dev", overrides=OVERRIDES, keep=options.keep) as broker:
        create_topic(broker.bootstrap, "fuzz", partitions=2)
        attack(suite, broker, random.Random(seed), frames, count)
        suite.check("the broker still runs", broker.process is not None and broker.process.poll() is None)
        output = broker.output_path.read_text(errors="replace")
        suite.equal("errors of our own in its log", 0, output.count("Traceback"))
        suite.check(
            "memory is bounded", broker.resident_bytes() < MAX_RESIDENT_BYTES, f"{broker.resident_bytes() >> 20} MiB"
        )
        suite.equal("it stops cleanly", 0, broker.stop())
        broker.start()
        suite.check("and serves again after a restart", is_served(broker.bootstrap, "after"))


def attack(suite: Suite, broker: OttlaProcess, rng: random.Random, frames: list[bytes], count: int) -> None:
    """Send `count` frames one by one, each when the one before has been answered or has cost the connection."""
    started, most = time.monotonic(), 0
    outcomes: Counter[str] = Counter()
    victim = Victim(broker.bootstrap)
    for number in range(1, count + 1):
        outcomes[victim.take(mutate(rng, frames))] += 1
        if number % CHECK_EVERY == 0:
            most = max(most, broker.resident_bytes())
            if not is_served(broker.bootstrap, f"n{number}"):
                suite.check(f"an ordinary client is served after {number} frames", False, broker.output_tail(30))
                return
    victim.close()
    what = ", ".join(f"{times} {outcome}" for outcome, times in sorted(outcomes.items()))
    seconds = time.monotonic() - started
    suite.check(
        f"an ordinary client was served after each {CHECK_EVERY} of {count} frames",
        True,
        f"{what}; {seconds:.0f} s, at most {most >> 20} MiB resident",
    )


class Victim:
    """A connection that is made anew whenever the broker has closed it, or keeps us waiting."""

    def __init__(self, bootstrap: str) -> None:
        host, _, port = bootstrap.rpartition(":")
        self._address = (host, int(port))
        self._connection: socket.socket | None = None

    def take(self, frame: bytes) -> str:
        """Send one frame; `answered`, `closed` or `left waiting`."""
        try:
            if self._connection is None:
                self._connection = socket.create_connection(self._address, timeout=10)
                self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._connection.settimeout(PATIENCE_S)
            self._connection.sendall(frame)
            if self._answer(self._connection):
                return "answered"
            outcome = "closed"
        except TimeoutError:
            outcome = "left waiting"
        except ConnectionError:
            outcome = "closed"
        self.close()
        return outcome

    @staticmethod
    def _answer(connection: socket.socket) -> bool:
        """Read one whole answer; False if the connection ends before."""
        left, head = 4, b""
        while left:
            data = connection.recv(left)
            if not data:
                return False
            left -= len(data)
            if len(head) < 4:
                head += data
                if len(head) == 4:
                    left = int.from_bytes(head, "big")
        return True

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def is_served(bootstrap: str, value: str) -> bool:
    """Whether an ordinary producer and consumer get one record through."""
    failures: list[KafkaError | None] = []
    ends: list[int] = []

    def delivered(error: KafkaError | None, message: object) -> None:
        failures.append(error)
        if error is None:
            ends.append(message.offset())  # type: ignore[attr-defined]

    producer = Producer({"bootstrap.servers": bootstrap, "message.timeout.ms": 20_000})
    producer.produce("fuzz", key=b"ordinary", value=value.encode(), partition=1, on_delivery=delivered)
    producer.flush(25)
    if failures != [None]:
        return False
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "none", "enable.auto.commit": False})
    consumer.assign([TopicPartition("fuzz", 1, ends[0])])
    message = consumer.poll(20)
    consumer.close()
    return message is not None and message.error() is None and message.value() == value.encode()


if __name__ == "__main__":
    sys.exit(run_suite("fuzz", body, doc=__doc__, more_arguments=arguments))
