"""Contract suites that any measure can be held against."""
