"""Checks of Ottla by foreign clients, tests and tools, in part compared with Apache Kafka. See README.md."""
