"""The admin listener: the broker's HTTP API.

`call` declares a call, `table` lists all of them, `calls` has those that return text. A request passes `listener`,
`conversation` (HTTP/1.1) and `access` (authentication) to `answering`, which parses it with `json_values`, calls, and
writes the response. `fields` describes dataclasses for that, and for the OpenAPI document.
"""
