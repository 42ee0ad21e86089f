"""A small blocking Kafka client, for our commands and for tests that need no client library.

`connection`: one broker, one request at a time.
"""
