"""The differences between two releases of Apache Kafka that a broker which follows it has to know."""
