"""A data directory as jobs find it: logs, segments, and which files a server may change meanwhile."""
