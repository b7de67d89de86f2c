"""Benchmarks: `make bench`, or `python -m benchmarks NAME...`. Ratios within one run, because machines differ."""
