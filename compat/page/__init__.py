"""The status page in a browser: `python -m compat.page`."""
