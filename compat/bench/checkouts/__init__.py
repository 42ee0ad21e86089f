"""Two checkouts of Ottla compared: the cost of a change, in CPU and in instructions."""
