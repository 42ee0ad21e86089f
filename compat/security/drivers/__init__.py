"""One process per client: it reads a line with a login and an action, and writes a line with the outcome."""
