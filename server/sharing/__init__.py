"""Share groups (KIP-932), the parts that know of no network, no log and no clock. Nothing is wired to them yet.

Read `in_flight`, `share_partition`, `acquiring`, `acknowledging`: the records of one partition on their way to the members of one
group. `state_batches`, `share_records` and `share_states` are the other side: what of that is written to `__share_group_state`.
`share_sessions` is what members need not say again with each fetch.
"""
