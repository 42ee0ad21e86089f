"""`ottla` as the image starts it (docs/containers.md): to be read as `entrypoint`, `variables`, `defaults`."""
