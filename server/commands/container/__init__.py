"""`ottla` as started by the image (docs/containers.md); read `entrypoint`, `variables`, `defaults`, in this order."""
