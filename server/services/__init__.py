"""What a request may ask for: the rooms below, together.

`context` (what handlers see) and `coordinators` (made when they are first asked for); `explaining` (what all of them know
of why a partition is cleaned or not).
"""
