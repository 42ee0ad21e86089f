"""What the suites share: starting brokers, counting checks, reading topics and segment files."""
