"""Share fetch and acknowledge beside Apache Kafka."""
