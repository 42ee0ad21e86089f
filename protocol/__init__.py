"""Floor 1: bytes to values and back. No I/O, no clock, no logging."""
