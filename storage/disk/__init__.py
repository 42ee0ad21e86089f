"""Files, paths and small files that are replaced as a whole: everything that touches the disk goes through here."""
