"""What the broker can be configured with, what it is configured with, and how that changes."""
