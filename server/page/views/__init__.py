"""What each page shows: from the broker to a `Page`, on Trio's thread in turns. A file a page, or a few that belong together."""
