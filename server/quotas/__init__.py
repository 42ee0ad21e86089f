"""Client quotas as values and meters: which clients are throttled, and for how long. Knows no sockets and no requests.

Read in this order: `entities` (the subjects of quotas, and the quota that applies to a client), `validation` (which values may
be set), `filters` (which quotas may be described), `rates` (recent use of many clients, bounded), `clients` (measurement, and
throttle times), `connections` (the same for new connections), `table` (all quotas of a broker).
"""
