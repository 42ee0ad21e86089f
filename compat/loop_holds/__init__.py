"""The longest time that one request, or one of the broker's own jobs, lets another client wait."""
