"""What topics cost that come and go by the hundred."""
