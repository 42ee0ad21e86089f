"""Share groups of Ottla and Apache Kafka, answer by answer."""
