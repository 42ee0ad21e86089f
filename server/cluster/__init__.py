"""Who holds what: nodes, leaders, replicas, topics. The only writer of the catalog."""
