"""The race: Ottla, Apache Kafka, kfake and librdkafka's mock cluster in one report (`make bench`)."""
