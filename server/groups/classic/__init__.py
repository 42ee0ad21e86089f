"""Groups of the classic protocol (JoinGroup, SyncGroup, Heartbeat, LeaveGroup).

`group` (one of them as a table), `protocol` (what happens to it), `rebalance`, `records`.
"""
