"""How clients log in, as options say it.

`options` (which there are), `jaas` (lines with users), `mechanisms` (what both mean for one listener).
"""
