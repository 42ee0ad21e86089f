"""Streams groups (KIP-1071): instances of one Kafka Streams application, and which of its tasks each of them has.

Read in this order: `member` (as a value), `topology` and `configured` (what the application reads and writes, and what that makes of
the topics there are), `group` (the table), `records` and `replay` (how it is written down), `membership`, `reconciliation`
(one step of a member), `assignor` and `targets` (who should have what), `transition` (a heartbeat as records), `answering`,
`describing`, `protocol` (time, and all events).

There are no static members yet, and as in Apache Kafka no sources by regular expression. Offsets of tasks are kept for
descriptions only. No member gets warm-up tasks, although records of members may contain some.
"""
