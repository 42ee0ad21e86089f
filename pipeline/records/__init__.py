"""Records a column at a time."""
