"""How large the product is; see the program."""
