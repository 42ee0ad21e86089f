"""What many things cost that do nothing or ask for little: connections, parked fetches, consumers of one partition, partitions."""
