"""SASL mechanisms, as conversations of bytes.

`conversation` (the protocol of all mechanisms), `passwords` (PLAIN and SCRAM, with `scram_users`), `oauthbearer` (with
`jwks`, `fetching`), `logins` (which mechanisms a listener has).
"""
