"""A small blocking Kafka client, for our commands and for tests that want no client library.

Read `kafka` first: what it can do. `nodes` asks the right broker, in a version that it speaks, and again where that may help;
`topics`, `configs`, `producing`, `reading` and `groups` are the calls, `values` what they take and give.
`connection` is one broker, one request at a time; tests speak raw requests through it.
"""
