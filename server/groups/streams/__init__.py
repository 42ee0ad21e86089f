"""Streams groups (KIP-1071): instances of one Kafka Streams application, and which of its tasks each of them has.

Read in this order: `member` (as a value), `topology`, `description` and `configured` (what the application reads and writes, and what
that makes of the topics there are), `group` (the table), `records` and `replay` (how it is written down), `membership`,
`reconciliation` (one step of a member), `assignor` and `targets` (who should have what), `transition` (a heartbeat as records),
`answering`, `describing`, `target_jobs` and `protocol` (time, and all events).

As in Apache Kafka 4.4.0, there are no sources by regular expression, no member gets warm-up tasks, although records of members
may contain some, and standby tasks are not spread by client tags.
"""
