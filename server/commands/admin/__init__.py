"""Commands that ask the admin listener of a broker, over HTTP.

`asking` speaks HTTP; then a module a command.
"""
