"""`kafka-topics.sh --list`, by librdkafka."""

import argparse
import re
from pathlib import Path

from confluent_kafka.admin import AdminClient

parser = argparse.ArgumentParser(prog="kafka-topics.sh", allow_abbrev=False)
parser.add_argument("--list", action="store_true", required=True)
parser.add_argument("--bootstrap-server", required=True)
parser.add_argument("--command-config", required=True)
asked = parser.parse_args()
config = dict(line.split("=", 1) for line in Path(asked.command_config).read_text().splitlines() if "=" in line)
login = dict(re.findall(r'(username|password)="([^"]*)"', config.pop("sasl.jaas.config")))
admin = AdminClient(
    config
    | {f"sasl.{name}": value for name, value in login.items()}
    | {"bootstrap.servers": asked.bootstrap_server, "broker.address.family": "v4"}
)
print("\n".join(admin.list_topics(timeout=30).topics))
