"""200 000 damaged frames of real clients: the broker stays up, within its memory, and answers other clients during it.

The suite records the frames of confluent-kafka, kafka-python and aiokafka, damages them (`mutate.py`, seed printed) and sends
them to the same kind of broker, one by one. After every few thousand frames the broker must still serve an ordinary client.
"""

import argparse
import random
import statistics
import struct
import sys
import time
from collections import Counter

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from ..support.brokers.ottla_process import OttlaProcess
from ..support.clients.holds import INTERVAL_MS, Pinger
from ..support.clients.steps import create_topic
from ..support.suite import NotRunError, Options, Suite, run_suite
from .mutate import mutate
from .record import RecordingProxy, sessions
from .victim import Victim

FRAMES, QUICK_FRAMES = 200_000, 6_000
CHECK_EVERY = 10_000
MAX_HOLD_MS = 20.0
REPETITIONS = 5
SLOW_FRAMES_LOOKED_AT = 10
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
        attack(suite, broker, random.Random(seed), frames, count, is_alone=not options.quick)
        suite.check("the broker still runs", broker.process is not None and broker.process.poll() is None)
        output = broker.output_path.read_text(errors="replace")
        suite.equal("errors of our own in its log", 0, output.count("Traceback"))
        suite.check(
            "memory is bounded", broker.resident_bytes() < MAX_RESIDENT_BYTES, f"{broker.resident_bytes() >> 20} MiB"
        )
        suite.equal("it stops cleanly", 0, broker.stop())
        broker.start()
        suite.check("and serves again after a restart", is_served(broker.bootstrap, "after"))


def attack(
    suite: Suite, broker: OttlaProcess, rng: random.Random, frames: list[bytes], count: int, *, is_alone: bool
) -> None:
    """Send `count` frames one by one, each when the one before has been answered or has cost the connection."""
    started, most, longest_ms = time.monotonic(), 0, 0.0
    outcomes: Counter[str] = Counter()
    slow: list[str] = []
    victim = Victim(broker.bootstrap)
    assert broker.process is not None
    with Pinger(broker.bootstrap, broker.process.pid) as pinger:
        for number in range(0, count, CHECK_EVERY):
            sent: list[tuple[float, bytes]] = []
            with pinger.watch() as hold:
                for _ in range(min(CHECK_EVERY, count - number)):
                    frame = mutate(rng, frames)
                    sent.append((time.monotonic(), frame))
                    outcomes[victim.take(frame)] += 1
            longest_ms = max(longest_ms, hold.longest_ms)
            most = max(most, broker.resident_bytes())
            slow += held_again(pinger, victim, sent)
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
    told = "; ".join(slow) or f"one waited {longest_ms:.0f} ms at most, which was not so again"
    if is_alone:
        suite.check(f"no frame lets another client wait longer than {MAX_HOLD_MS:.0f} ms", not slow, told)
    else:
        # In `quick` several suites run at a time.
        suite.note(f"waits of another client beyond {MAX_HOLD_MS:.0f} ms: {told}")


def held_again(pinger: Pinger, victim: Victim, sent: list[tuple[float, bytes]]) -> list[str]:
    """Return the frames sent while a ping waited too long, if pings wait again on a retry: API keys, versions, the time.

    A busy machine, or its disk, delays a ping now and then; a frame does it every time.
    """
    held = [ping for ping in pinger.answered if ping.held_ms > MAX_HOLD_MS]
    found = []
    for ping in sorted(held, key=lambda ping: -ping.held_ms)[:SLOW_FRAMES_LOOKED_AT]:
        early_s = ping.sent_s - INTERVAL_MS / 1000
        frames = [frame for at_s, frame in sent if early_s <= at_s <= ping.answered_s]
        again_ms = []
        for _ in range(REPETITIONS):
            with pinger.watch() as hold:
                for frame in frames:
                    victim.take(frame)
            again_ms.append(hold.longest_ms)
        if statistics.median(again_ms) > MAX_HOLD_MS:
            keys = Counter(struct.unpack_from(">hh", frame.ljust(8, b"\0"), 4) for frame in frames)
            found.append(f"{statistics.median(again_ms):.0f} ms for (API key, version) {sorted(keys)[:10]}")
    return found


def is_served(bootstrap: str, value: str) -> bool:
    """Return whether an ordinary producer and consumer get one record through."""
    failures: list[KafkaError | None] = []
    ends: list[int] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        failures.append(error)
        if error is None:
            ends.append(message.offset())

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
