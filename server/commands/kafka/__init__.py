"""Commands that speak Kafka's protocol, to any broker.

`asking` connects; then a module a command: `topics` with `topics_status`.
"""
