"""Files to tables, each malformed row an error that names file and line."""
