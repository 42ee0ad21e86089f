"""The admin listener: what is asked over HTTP.

`listener` speaks HTTP/1.1, `cleaning_calls` knows what is asked.
"""
