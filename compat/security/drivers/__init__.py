"""One process a client: a line with a login and an action in, a line with what came of it out."""
