"""The dead letter queues of share groups (KIP-1191), compared with Apache Kafka's."""
