"""One pass of the cleaner as a Spark job: the plan, the keys, the exchange, the segments written anew."""
