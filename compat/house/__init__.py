"""The size of the product; see the program."""
