"""The format "ottla" in a Spark session, as frame and as stream.

`source` (called by Spark) with `batch_reader` and `stream`; `read_options`, `reading` (logs and offset ranges),
`push_down`, `split_reader` (a task), `decoded` (values as JSON).
"""
