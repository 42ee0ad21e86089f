"""Who is throttled, and for how long: client quotas as values and meters. Knows no sockets and no requests."""
