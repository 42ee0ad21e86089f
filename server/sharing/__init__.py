"""Share groups (KIP-932): the records of a partition on their way to a group, and what is written of that.

Read `in_flight`, `share_partition`, `acquiring`, `acknowledging`: the records of one partition on their way to the members of one
group; they know of no network, no log and no clock. `state_batches`, `share_records` and `share_states` are the other side: what of
that is written to `__share_group_state`; `state_coordinator` and `state_service` coordinate it, as `server.coordination`
has it for every coordinator. `share_sessions` is what members need not say again with each fetch;
`loading` and `leaders` have all of that for the partitions that nodes of this process lead. `letters` and `dead_letters` write
what becomes of records that a group gives up.
"""
