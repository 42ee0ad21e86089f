"""Faults that somebody has declared, for tests of clients: errors, delays, lost answers and connections, failing disks.

Read in this order: `declaration` (what may be said), `table` (which are in force, what they have met), `places` (what a
request of each API names, and where its answer has room for an error), `answers` (requests without the rows that an error
answers, and answers with them), `disk` (a full, slow or failed disk). `handlers.faulted` stands between connections and
handlers while there are any.
"""
