"""A replacement of Apache Kafka's script `kafka-topics.sh` for librdkafka's tests, by librdkafka's admin client."""

import argparse

from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

TIMEOUT_S = 60


def main() -> None:
    parser = argparse.ArgumentParser(prog="kafka-topics.sh", allow_abbrev=False)
    parser.add_argument("--bootstrap-server", required=True)
    action = parser.add_mutually_exclusive_group(required=True)
    for name in ("--create", "--alter", "--delete"):
        action.add_argument(name, action="store_true")
    parser.add_argument("--topic", required=True)
    parser.add_argument("--partitions", type=int, default=-1)
    parser.add_argument("--replication-factor", type=int, default=-1)
    parser.add_argument("--config", action="append", default=[], metavar="NAME=VALUE")
    asked = parser.parse_args()
    admin = AdminClient({"bootstrap.servers": asked.bootstrap_server})
    if asked.create:
        config = dict(entry.split("=", 1) for entry in asked.config)
        answers = admin.create_topics(
            [NewTopic(asked.topic, asked.partitions, asked.replication_factor, config=config)]
        )
    elif asked.alter:
        answers = admin.create_partitions([NewPartitions(asked.topic, asked.partitions)])
    else:
        answers = admin.delete_topics([asked.topic])
    for answer in answers.values():
        answer.result(TIMEOUT_S)


if __name__ == "__main__":
    main()
