"""Clients that read: programs that get reads as JSON on standard input, and answer each with a line of JSON.

    in    {"bootstrap": "H:P", "reads": [{"topic": "t", "level": "read_committed", "offset": 0, "end": 4, "group": null, "idle_s": 3}]}
    out   {"records": [[0, "k1", "a"]], "position": 4, "at_end": true}

A read ends when the client reports that it is at `end`, as programs with this client determine it, or when no record has
arrived, and the position has not moved, for `idle_s`. `group` is a consumer group of the new protocol to read as a member of.
"""
