"""The schema registry: schemas with versions, in the topic `_schemas`.

`schemas` (the rules of schemas).
"""
