"""Options of topics, and the catalog of all topics.

`options` (the type of an option), `config` (options of topics), `versions` (of records); `catalog` with `catalog_file` and `entries` (its
sections); `cluster_metadata` (Apache Kafka's, with `client_records`); `stored_configs` (a topic's options in either).
"""
