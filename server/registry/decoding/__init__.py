"""Keys and values of records as JSON, where their bytes name a schema: for people who look at records.

`values` (bounds, numbers and bytes in JSON), `avro_logical`, `avro_values`; `proto_plain`, `proto_values`; `frames` (which schema
the bytes name), `decoder` (finds the schema and decodes), for a worker thread: a value takes up to a second. `shown` has the records
of the broker itself, `cluster_schemas` those that a client reads.
"""
