"""Hard cases: logs that a right client reads to their end, and that many clients have stumbled over.

Read in this order: `table` (what a case is, as data, and all of them), `bench` and `builders` (how their logs come to be),
`load` (a topic with one).
"""
