"""Commands that speak Kafka's protocol, to any broker.

`asking` connects; every other module has one command: `topics` with `topics_status`.
"""
