"""Tables: a spec becomes runs, the runs become a table."""
