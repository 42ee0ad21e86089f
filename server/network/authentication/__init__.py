"""From the first byte of a client to who it is: `handshake` over TLS, then `login` by SASL, within one `allowance`.

`allowance` also answers what comes in the midst of it; `session` has clients log in again, `counts` is for the metrics.
"""
