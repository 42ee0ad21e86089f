"""Share fetch and acknowledge compared with Apache Kafka."""
