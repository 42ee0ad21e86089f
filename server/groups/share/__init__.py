"""Share groups (KIP-932) in the group coordinator: members, their targets, and the partitions that have states.

Read `member`, `states` and `group` (the tables), `records` and `replay` (how they are written), `transition` (a heartbeat),
`targets` (assignments), `protocol` (all events and timers), `flows` (requests to the share coordinator). Delivery of records is
in `server.sharing`.
"""
