"""What certificates prove: contexts of listeners, and principals from names in certificates."""
