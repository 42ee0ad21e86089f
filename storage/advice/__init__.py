"""Prediction of what compaction does to a log, and of what its settings cost. Reads only; nothing here changes a log.

Read in this order: `summary` (a measured log, as data), `tallying` (its counts, batch by batch), `measuring` (one pass over its
files), `prediction` (what settings cost, as data), `simulating` (the cleaner in virtual time), `advising` (settings for a goal),
`notes` (sentences), `advice_page` (HTML), `directories` (the logs of a topic).
"""
