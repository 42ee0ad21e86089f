"""What partitions cost that nobody uses."""
