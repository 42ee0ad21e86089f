"""The cleaner at work in the server: threads, passes, throttle, leases, status."""
