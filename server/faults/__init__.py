"""Injected faults, for tests of clients: errors, delays, lost responses and connections, failing disks.

Read in this order: `declaration` (arguments of a fault), `table` (present faults and their hits), `error_fields` (the names
in a request of each API, and the error fields in its response), `answers` (requests without the refused rows, and
responses with their errors), `disk` (a full, slow or failed disk). While faults exist, `handlers.faulted` runs between
connections and handlers.
"""
