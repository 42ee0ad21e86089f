"""librdkafka's mock cluster in a process of its own: prints `ready ADDRESS`, and runs until SIGTERM."""

import signal

from confluent_kafka import Producer


def main() -> None:
    owner = Producer({"bootstrap.servers": "127.0.0.1:1", "test.mock.num.brokers": 1, "log_level": 3})
    (broker,) = owner.list_topics(timeout=30).brokers.values()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    print(f"ready {broker.host}:{broker.port}", flush=True)
    signal.sigwait({signal.SIGTERM})


if __name__ == "__main__":
    main()
