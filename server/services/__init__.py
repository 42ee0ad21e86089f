"""Services for requests: the lower rooms together.

`context` (what handlers get) and `coordinators` (made when they are first needed); `explaining` (why a partition is cleaned or
not, from all sources).
"""
