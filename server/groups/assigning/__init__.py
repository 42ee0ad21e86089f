"""Which member of a consumer group gets which partition: subscriptions, assignors, targets."""
