"""A replacement of Apache Kafka's script `kafka-acls.sh` for foreign test suites, by librdkafka's admin client.

`python kafka_acls.py --bootstrap-server HOST:PORT …`, or `carry_out` with an existing client. It imports no code of this
project, so that it can be copied into the source tree of another project's tests.
"""

import argparse
import sys
from collections.abc import Sequence

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

TIMEOUT_S = 30
EVERY_ENTRY = AclBindingFilter(
    ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
)


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="kafka-acls.sh", allow_abbrev=False)
    parser.add_argument("--bootstrap-server")
    parser.add_argument("--authorizer-properties", help="address of ZooKeeper; ignored")
    parser.add_argument("--force", action="store_true", help="no confirmation")
    action = parser.add_mutually_exclusive_group(required=True)
    for name in ("--add", "--remove", "--list"):
        action.add_argument(name, action="store_true")
    for kind in ("allow", "deny"):
        parser.add_argument(f"--{kind}-principal")
        parser.add_argument(f"--{kind}-host", default="*")
    parser.add_argument("--operation", default="All")
    parser.add_argument("--cluster", action="store_true")
    for name in ("--topic", "--group", "--transactional-id"):
        parser.add_argument(name)
    return parser


def carry_out(asked: argparse.Namespace, admin: AdminClient) -> str:
    """Carry out the request, and return the text to print. KafkaException with the broker's error."""
    if asked.list:
        return "\n".join(map(str, admin.describe_acls(EVERY_ENTRY).result(TIMEOUT_S)))
    if asked.allow_principal:
        who = (asked.allow_principal, asked.allow_host, AclOperation[asked.operation.upper()], AclPermissionType.ALLOW)
    else:
        who = (asked.deny_principal, asked.deny_host, AclOperation[asked.operation.upper()], AclPermissionType.DENY)
    resources = {
        ResourceType.TOPIC: asked.topic,
        ResourceType.GROUP: asked.group,
        ResourceType.TRANSACTIONAL_ID: asked.transactional_id,
        ResourceType.BROKER: "kafka-cluster" if asked.cluster else None,
    }
    named = [(kind, name, ResourcePatternType.LITERAL, *who) for kind, name in resources.items() if name is not None]
    if asked.add:
        answers = admin.create_acls([AclBinding(*entry) for entry in named])
    else:
        answers = admin.delete_acls([AclBindingFilter(*entry) for entry in named])
    for answer in answers.values():
        answer.result(TIMEOUT_S)
    return ""


def main(argv: Sequence[str] | None = None) -> int:
    asked = arguments().parse_args(argv)
    print(carry_out(asked, AdminClient({"bootstrap.servers": asked.bootstrap_server})))
    return 0


if __name__ == "__main__":
    sys.exit(main())
