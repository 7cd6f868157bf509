"""Reports: one model of an acceptance run, and what writes it down."""
