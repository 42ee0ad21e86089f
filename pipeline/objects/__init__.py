"""Copies of log directories in object stores and HDFS, through `pyarrow.fs`: what has an address instead of a path.

`addresses` (schemes, options), `failures` (what a store refuses, as errors of a job), `ranges` (bytes of an object, in good
pieces), `object_files` (the side of `storage.disk.files.Files` that readers need), `tiered` (segments of remote storage managers), `uploads` (what jobs
write).
"""
