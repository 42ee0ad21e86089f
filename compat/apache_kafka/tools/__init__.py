"""Apache Kafka's command line tools against Ottla, their outputs beside those against Apache Kafka."""
