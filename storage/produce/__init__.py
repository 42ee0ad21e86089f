"""What an append is checked for, and what is known of producers and their transactions."""
