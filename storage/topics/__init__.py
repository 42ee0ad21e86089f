"""What topics are configured with, and the catalog that says which there are."""
