"""TLS: contexts of listeners, and principals from names in certificates."""
