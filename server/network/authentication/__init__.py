"""From the first byte of a client to who it is: `handshake` over TLS, then `login` by SASL, within one `allowance`.

`session` has clients log in again, `refusing` answers what comes in the midst of it, `counts` is for the metrics.
"""
