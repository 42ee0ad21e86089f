"""A cleaner pass in stages: the plan, the keys, the exchange, the rewritten segments.

Read in this order: `plan` (everything that decides bytes) with `survey`, `staging` (where plans and results are), `key_scan`,
`exchange` with `segment_bits`, `rewrite`; then `compact` (the stages as a Spark job) and `local` (in this process).
"""
