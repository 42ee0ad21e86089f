"""The cost of creating and deleting topics by the hundred."""
