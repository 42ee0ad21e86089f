"""Authentication of clients: `handshake` over TLS, then `login` by SASL, within one `allowance`.

`allowance` also has the answer to other requests during a login; `session` lets clients log in again, `counts` has the metrics.
"""
