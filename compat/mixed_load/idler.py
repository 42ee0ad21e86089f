"""A member that only joins, until it is killed: `python -m compat.mixed_load.idler BOOTSTRAP GROUP PROTOCOL`."""

import sys

from confluent_kafka import Consumer

from .consuming import configuration
from .topics import COMPACTED


def main(bootstrap: str, group: str, protocol: str) -> None:
    consumer = Consumer(configuration(bootstrap, group, protocol))
    consumer.subscribe([COMPACTED])
    while True:
        consumer.poll(1.0)


if __name__ == "__main__":
    main(*sys.argv[1:])
