"""The admin listener: the broker's HTTP API.

`call` declares a call, `table` lists all of them, `calls` has those that return text. A request passes `listener` with its
base `listening`, `conversation` (HTTP/1.1), `access` (authentication) and `routing` to `answering`, which parses it with
`replies` and `json_values`, calls, and writes the response. `fields` describes dataclasses for that, and for the OpenAPI
document. `registry_listener` serves the calls of the schema registry in the same way.
"""
