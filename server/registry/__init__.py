"""The schema registry: an HTTP API beside the broker, whose state is the topic `_schemas`.

`names` (subjects, contexts), `records` (the format of `_schemas`), `state` (their fold), `topic` (reads and writes them);
`schemas` (which texts are schemas, and which are compatible), `parsing` (with all that they reference), `options` (metadata,
rules, options of a level), `registry` (what a client can do), `endpoints` (the table of HTTP calls), `errors` (their codes).
`http.registry_listener` serves the table. `decoding` shows records as JSON.
"""
