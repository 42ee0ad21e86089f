"""The format "ottla" in a Spark session, as frame and as stream.

`source` (what Spark calls) with `batch_reader` and `stream`; `read_options`, `reading` (which logs, from where to where),
`push_down`, `split_reader` (a task).
"""
