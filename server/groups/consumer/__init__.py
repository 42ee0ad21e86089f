"""Consumer groups of the new protocol (KIP-848): the broker assigns, members reconcile one heartbeat at a time.

Read in this order: `member` and `group` (the tables), `records` and `replay` (how they are written down and changed),
`protocol` (what heartbeats, leaves and time-outs do) with `membership` (who sends this?), `transition` (what a
heartbeat changes), `targets` (what all should have) with the assignors of `groups.assigning`, `reconciliation` (how one
gets there); `migration` and `classic_members` (members of the classic protocol in these groups).
"""
