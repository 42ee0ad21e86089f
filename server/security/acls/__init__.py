"""What a principal may do: Apache Kafka's StandardAuthorizer.

`kinds` (operations, resources, patterns), `acl` (one entry), `index` (all of them), `filters` (which of them filters
mean), `authorizer` (the decisions).
"""
