"""Which member of a consumer group gets which partition: the assignors, and what they ask of the broker's topics."""
