"""The tables of broker options: what each is called, takes and does; one declaration for reading, checking, showing and documenting.

`broker_options` on `streams_options` on `share_options` on `quota_options` on `replication_options` on `security_options` (declared, and acted on), `known_options`
(Apache Kafka's others), and `by_name`, which has all of them.
"""
