"""Share groups (KIP-932), as far as the group coordinator knows of them: members, what they should have, and which partitions have states.

Read `member` and `group` (the tables), `records` and `replay` (how they are written down). The records that members get are
`server.sharing`'s.
"""
