"""Share groups (KIP-932), as far as the group coordinator knows of them: members, what they should have, and which partitions have states.

Read `member`, `states` and `group` (the tables), `records` and `replay` (how they are written down), `requests` (what a heartbeat must
look like), `transition` (what it does), `targets` (who gets which partitions), `protocol` (all that over time), `keeper` and
`flows` (what is asked of the share coordinator). The records that members get are `server.sharing`'s.
"""
