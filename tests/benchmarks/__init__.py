"""The benchmarks measure what their names say, and refuse to count work that was not done."""
