"""One log: append, read, retention, flush, recovery, the swap of cleaned segments.

Read in this order: `log_reader`, `durable_log` and `log`, of which each is the one before and more, with `segments` and
`log_parts`; `large_append`, `flush`, `replay` (producers); `rolling` (what begins the next segment); `retention`,
`deletion` (what goes); `recovery` and `stopped_log` (how it is opened); `swap` and `staged_segment` (segments in the place of others).
"""
