"""A small blocking Kafka client, for our commands and for tests without a client library.

Read `kafka` first: its API. `nodes` sends a request to the right broker, in a version that it supports, and retries if that may
help; `topics`, `configs`, `producing`, `reading` and `groups` are the calls, `values` their arguments and results. `connection`
is a connection to one broker, one request at a time; tests send raw requests through it.
"""
