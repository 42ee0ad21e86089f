"""Clients that read: each is a program that takes reads as JSON on its standard input, and answers each with a line of JSON.

    in    {"bootstrap": "H:P", "reads": [{"topic": "t", "level": "read_committed", "offset": 0, "end": 4, "group": null, "idle_s": 3}]}
    out   {"records": [[0, "k1", "a"]], "position": 4, "at_end": true}

A read ends when the client says that it is at `end`, in the way in which programs with this client ask for it, or when nothing has
come, and the position has not moved, for `idle_s`. `group` is a consumer group of the new protocol to read as a member of.
"""
