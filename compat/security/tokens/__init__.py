"""Logins by OAUTHBEARER, at Apache Kafka 4.3.1 and at Ottla."""
