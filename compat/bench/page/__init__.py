"""What the status page costs: `python -m compat.bench.page`."""
