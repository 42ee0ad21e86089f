"""What passwords and tokens prove: the mechanisms of SASL, as conversations of bytes.

`conversation` (what all mechanisms have in common), `plain`, `scram` (with `scram_users`), `logins` (which a listener has).
"""
