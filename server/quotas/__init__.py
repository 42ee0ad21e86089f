"""Who is throttled, and for how long: client quotas as values and meters. Knows no sockets and no requests.

Read in this order: `entities` (whom a quota is for, and which holds for a client), `validation` (what may be set), `filters` (what may be
asked), `rates` (how much was used, of many clients, bounded), `clients` (what is measured,
and how long a client is to wait), `connections` (the same of new connections), `table` (all of a broker).
"""
