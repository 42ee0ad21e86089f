"""The tables of broker options: what each is called, takes and does; one declaration for reading, checking, showing and documenting.

`broker_options` on `group_options` on `quota_options` on `security_options` (declared, and acted on), and `known_options` (Apache
Kafka's others, and all of them by name).
"""
