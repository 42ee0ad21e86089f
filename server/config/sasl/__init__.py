"""SASL configuration: how clients log in.

`options` (the options), `jaas` (lines with users), `mechanisms` (what both mean for one listener).
"""
