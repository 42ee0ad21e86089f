"""Streams groups of Ottla and Apache Kafka, heartbeat by heartbeat."""
