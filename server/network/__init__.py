"""Bytes of connections: sockets, frames, the memory that requests and answers may take.

Read in this order: `listener` (an address), `connections` (accepts, within limits), `connection` (one client: frame,
handler, answer) with `frames` and `transport`, `ready` (the queue of connections that have a request), `dispatcher` (the interface to
the layers above), `shares` (resources of all connections): `request_memory`, `large_requests`, `response_slots`,
`unsent_answers`.
"""
