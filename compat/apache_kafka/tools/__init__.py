"""Apache Kafka's command line tools: their output against Ottla compared with that against Apache Kafka."""
