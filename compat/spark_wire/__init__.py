"""`ottla-spark verify --bootstrap` against a running broker: right topics pass, and each planted fault is found."""
