"""The admin listener: what is asked over HTTP.

`call` says what a call is, `table` has them all, `calls` a module a subject. A request comes by `listener`, `conversation`
(HTTP/1.1) and `access` (who may ask) to `answering`, which reads it with `json_values`, calls, and writes the answer;
`fields` is what that, and the OpenAPI document, know of dataclasses.
"""
