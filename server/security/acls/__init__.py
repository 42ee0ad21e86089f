"""Access control lists: Apache Kafka's StandardAuthorizer.

`kinds` (operations, resources, patterns), `acl` (one entry), `networks` (hosts with many addresses), `index` (all entries), `filters` (which entries a filter
matches), `authorizer` (the decisions).
"""
