"""What passwords and tokens prove: the mechanisms of SASL, as conversations of bytes.

`conversation` (what all mechanisms have in common), `plain` (a mechanism), `logins` (which conversations a listener has).
"""
