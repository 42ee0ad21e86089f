"""The comparison of two releases of Apache Kafka."""
