"""Quotas, compared with Apache Kafka request by request."""
