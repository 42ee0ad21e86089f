"""Logins by OAUTHBEARER, at Apache Kafka and at Ottla."""
