"""What a request may ask for: the rooms below, together.

`context` (what handlers see) and `coordinators` (made when they are first asked for).
"""
