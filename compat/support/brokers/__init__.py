"""Brokers in processes of their own: Ottla, Apache Kafka, or one that runs already."""
