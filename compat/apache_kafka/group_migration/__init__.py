"""Groups of both protocols, compared with Apache Kafka request by request."""
