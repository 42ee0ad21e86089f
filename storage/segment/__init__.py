"""One segment: its records, its indexes, and the small files beside it.

Read in this order: `segment_reader` and `segment`, which is that and more; `segment_indexes` with `index`,
`index_file` and `newest_batches`; `batch_scan`, `timestamp_search` (finding a place); `cleaned` and
`split` (new ones); `leader_epochs`.
"""
