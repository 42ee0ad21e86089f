"""The request and response messages, one API a file."""
