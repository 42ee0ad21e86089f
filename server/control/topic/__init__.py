"""What one topic is made of, for who asks from outside: its records, its options."""
