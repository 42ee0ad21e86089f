"""The transaction APIs of Ottla and Apache Kafka, answer by answer."""
