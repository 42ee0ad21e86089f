"""Small requests in a closed loop from a compiled client: what a broker answers a second, and what one costs it."""
