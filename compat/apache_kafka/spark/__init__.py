"""What the pipeline on Spark makes of directories that Apache Kafka wrote, and Apache Kafka of what the pipeline wrote."""
