"""The format "ottla" in a Spark session, as frame and as stream."""
