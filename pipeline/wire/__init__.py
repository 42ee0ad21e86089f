"""Topics of a Kafka that is reached over the wire, by Spark's own Kafka connector: any Kafka, no directory.

`verify_wire` (what is asked, and the report) with `compacted` (one topic, by itself) and `equal` (two topics, key by key); `topics`
(what a cluster says of a topic: partitions, offsets, configs), `cluster` (its address and its clients' options), `scanned` (a
topic as a frame with a fixed end), `key_rows` (what is moved of a key).
"""
