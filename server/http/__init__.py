"""The admin listener: what is asked over HTTP."""
