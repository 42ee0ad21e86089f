"""Fetches of Ottla and of Apache Kafka: what is answered, and when."""
