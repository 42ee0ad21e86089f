"""Commands that call the admin listener of a broker, over HTTP.

`asking` is the HTTP client; every other module has one command.
"""
