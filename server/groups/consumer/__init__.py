"""Consumer groups of the new protocol (KIP-848): the broker assigns, members reconcile one heartbeat at a time.

Read in this order: `topics` (what is asked of the broker's topics), `member` and `group` (the tables), `assignors` and
`regexes` (pure functions), `reconciliation` (how a member gets from what it has to what it should have), `records` (how
all is written down and applied), `protocol` (what a heartbeat and the time-outs do).
"""
