"""The cost of the status page: `python -m compat.bench.page`."""
