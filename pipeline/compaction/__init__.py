"""A pass of the cleaner in three stages: the plan, the keys, the exchange, the segments written anew.

Read in this order: `plan` (all that decides bytes) with `survey`, `staging` (where plans and results lie), `key_scan`,
`exchange` with `segment_bits`, `rewrite`; then `compact` (the stages as a Spark job) and `local` (in this process).
"""
