"""What passwords and tokens prove: the mechanisms of SASL, as conversations of bytes.

`conversation` (what all mechanisms have in common), `plain`, `scram` (with `scram_users`), `oauthbearer` (with
`bearer_tokens`, `proved_tokens`, `jwks`, `fetching`), `logins` (which a listener has).
"""
