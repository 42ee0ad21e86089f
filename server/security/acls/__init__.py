"""What a principal may do: Apache Kafka's StandardAuthorizer.

`kinds` (operations, resources, patterns), `acl` (one entry), `index` (all of them), `authorizer` (the decisions).
"""
