"""The Spark pipeline on directories that Apache Kafka wrote, and Apache Kafka on the pipeline's output."""
