"""Clock, nursery, threads and turns: what everything that runs in the server stands on."""
