"""Acceptance: suites of pictures with known text, asked of an endpoint as its clients ask, and judged."""
