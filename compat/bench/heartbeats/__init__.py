"""The cost of heartbeats of quiet groups, held and answered at once."""
