"""What coordinators keep: groups and open transactions as they are, and what groups are made to have."""
