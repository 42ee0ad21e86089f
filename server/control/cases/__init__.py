"""Hard cases: valid logs that have exposed bugs in many clients.

Read in this order: `table` (all cases, as data), `bench` and `builders` (how their logs are made), `load` (creation of
a topic with one).
"""
