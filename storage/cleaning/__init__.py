"""Which log is cleaned next, how far, and what becomes of a pass."""
