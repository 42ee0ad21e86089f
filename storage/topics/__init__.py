"""What topics are configured with, and the catalog that says which there are.

`options` (what an option is), `config` (those of topics); `catalog` with `catalog_file` and `entries` (of its sections);
`cluster_metadata` (Apache Kafka's, with `client_records`).
"""
