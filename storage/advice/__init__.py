"""Prediction of what compaction does to a log, and of what its settings cost. Reads only; nothing here changes a log.

Read in this order: `summary` (a measured log, as data), `measuring` (one pass over its files).
"""
