"""Groups of both protocols, request by request beside Apache Kafka."""
