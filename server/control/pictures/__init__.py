"""The picture of logs, taken of a running broker: `taking` (all partitions of a topic, from memory), `look` (one of them, and what lies
in a range of its offsets, from its files).
"""
