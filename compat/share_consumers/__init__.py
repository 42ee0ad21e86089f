"""Ten share consumers, kill -9."""
