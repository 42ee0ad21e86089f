"""The cost of many clients that do little: idle connections, parked fetches, consumers of one partition, many partitions."""
