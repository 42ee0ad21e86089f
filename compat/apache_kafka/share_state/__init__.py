"""States of share groups, carried from one broker to the other in the files of `__share_group_state`."""
