"""Streams groups (KIP-1071): instances of one Kafka Streams application, and which of its tasks each of them has.

Read in this order: `member` (as a value), `topology` and `configured` (what the application reads and writes, and what that makes of
the topics there are), `group` (the table), `records` and `replay` (how it is written down), `membership`, `reconciliation`
(one step of a member), `assignor` and `targets` (who should have what), `transition` (a heartbeat as records), `answering`,
`describing`, `protocol` (time, and all events).

As in Apache Kafka 4.3.1 there are no static members, no sources by regular expression and no offsets of tasks yet, and
nobody is given tasks to warm up, though members may be written down with some.
"""
