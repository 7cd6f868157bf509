"""The checks themselves, one module per subject. `preflight.table` lists them all."""
