"""Which member of a consumer group gets which partition: the assignors, and what they ask of the broker's topics.

`assignment` (what goes in and comes out), `assignors` with `balancing`; `topics`, `metadata_hash` and `regexes` (which
topics those are, and whether they have changed).
"""
