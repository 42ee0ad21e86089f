"""What passwords and tokens prove: the mechanisms of SASL, as conversations of bytes."""
