"""The benchmarks: they measure what their names say, and do not count work that was not done."""
