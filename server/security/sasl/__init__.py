"""What passwords and tokens prove: the mechanisms of SASL, as conversations of bytes.

`conversation` (what all mechanisms have in common), `passwords` (PLAIN and SCRAM, with `scram_users`), `oauthbearer` (with `jwks`,
`fetching`), `logins` (which a listener has).
"""
