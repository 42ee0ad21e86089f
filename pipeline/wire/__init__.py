"""Verification of topics over the wire, with Spark's own Kafka connector: any Kafka, without its directory.

`verify_wire` (question and report) with `compacted` (one topic, by itself) and `equal` (two topics, key by key); `topics`
(a cluster's partitions, offsets and configs of a topic), `cluster` (its address and its clients' options), `scanned` (a
topic as a frame with a fixed end), `key_rows` (rows that are moved for a key).
"""
