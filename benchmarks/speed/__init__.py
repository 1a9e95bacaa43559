"""Speed as ratios within one run: `python -m benchmarks.speed`, a table and a last line of JSON."""
