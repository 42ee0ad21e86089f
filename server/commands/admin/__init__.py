"""Commands that ask the admin listener of a broker, over HTTP."""
