"""Two checkouts of Ottla beside each other: what a change has cost, in CPU and in instructions."""
