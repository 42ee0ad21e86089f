"""Share groups (KIP-932), as far as the group coordinator knows of them: members, what they should have, and which partitions have states.

Read `member`, `states` and `group` (the tables), `records` and `replay` (how they are written down), `transition` (what a heartbeat
does), `targets` (who gets which partitions), `protocol` (all that over time), `flows` (what is asked of the share coordinator). The records that members get are `server.sharing`'s.
"""
