"""The data directories of the broker: whose they are, what lies in them, and all logs opened, made, deleted and closed."""
