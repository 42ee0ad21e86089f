"""Other people's clients, tests and tools judge Ottla, beside Apache Kafka where that says more. See README.md."""
