"""Tables of broker options with names, types, defaults, bounds and effects.

One declaration of an option serves for reading, checking, showing and documenting it.

`broker_options` imports `group_options`, which imports `quota_options`, which imports `security_options` (all declared,
and acted on); `known_options` has Apache Kafka's others, and all of them by name.
"""
