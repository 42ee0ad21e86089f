"""What a principal may do: Apache Kafka's StandardAuthorizer.

`kinds` (operations, resources, patterns), `authorizer` (the decisions).
"""
