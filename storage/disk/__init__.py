"""Files, paths and small files that are replaced as a whole: everything that touches the disk goes through here.

`files` (what a file is) with `os_files` and `os_lock`; `own_files` (whose files are used, and the one place that opens them for
writing and makes directories, for all floors); `paths` (every name), `checkpoints`; `health` (which errors are
a disk's end), `descriptors` (who may keep one), `size_only` (files of dry runs).
"""
