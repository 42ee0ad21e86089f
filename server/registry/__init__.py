"""The schema registry: an HTTP API beside the broker, whose state is the topic `_schemas`.

`names` (subjects, contexts), `records` (the format of `_schemas`), `state` (their fold), `topic` (reads and writes them);
`parsing` (schemas with all that they reference), `schemas` (which are compatible), `options` (metadata, rules, options of a level),
`registry` (what a client can do), `endpoints` (the table of HTTP calls), `errors` (their codes). `http.registry_listener` serves the
table. `decoding` shows records as JSON. Which texts are schemas is in `protocol.schemas`.
"""
