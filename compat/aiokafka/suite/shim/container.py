# A replacement of the container in which aiokafka's tests run kafka-acls.sh and kafka-configs.sh: librdkafka's admin client
# carries them out at the broker that is already running. kafka_acls.py is compat/support/clients/kafka_acls.py.
import argparse
import re
import shlex

import kafka_acls
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

TIMEOUT_S = 30
MECHANISMS = {"SCRAM-SHA-256": ScramMechanism.SCRAM_SHA_256, "SCRAM-SHA-512": ScramMechanism.SCRAM_SHA_512}
ITERATIONS = 4096


class Container:
    def __init__(self, bootstrap):
        self.admin = AdminClient({"bootstrap.servers": bootstrap})

    def exec_run(self, command):
        script, *arguments = shlex.split(command)
        carried_out = {"kafka-acls.sh": self.acls, "kafka-configs.sh": self.configs}[script.rpartition("/")[2]]
        return 0, carried_out(arguments).encode()

    def acls(self, arguments):
        return kafka_acls.carry_out(kafka_acls.arguments().parse_args(arguments), self.admin)

    def configs(self, arguments):
        parser = argparse.ArgumentParser()
        parser.add_argument("--alter", action="store_true", required=True)
        parser.add_argument("--entity-type", choices=["users"], required=True)
        for name in ("--zookeeper", "--add-config", "--entity-name"):
            parser.add_argument(name, required=True)
        asked = parser.parse_args(arguments)
        # A request each: without ZooKeeper, Apache Kafka does not take two mechanisms of a user in one.
        for mechanism, password in re.findall(r"([\w-]+)=\[password=([^]]*)\]", asked.add_config):
            credential = ScramCredentialInfo(MECHANISMS[mechanism], ITERATIONS)
            wanted = UserScramCredentialUpsertion(asked.entity_name, credential, password.encode())
            self.admin.alter_user_scram_credentials([wanted])[asked.entity_name].result(TIMEOUT_S)
        return ""
