"""Access to copies of log directories in object stores and HDFS, through `pyarrow.fs`: data with an address instead of a path.

`addresses` (schemes, options), `failures` (a store's errors as errors of a job), `ranges` (bytes of an object, in efficient
pieces), `object_files` (the part of `storage.disk.files.Files` that readers need), `tiered` (segments of remote storage
managers).
"""
