"""Keys and values of records as JSON, where their bytes name a schema: for people who look at records.

`decoder` finds the schema and decodes, in a worker thread: a value takes up to a second. `shown` has the records of the broker
itself, `cluster_schemas` those that a client reads.
"""
