"""The benchmarks measure what they say, and refuse to count work that was not done."""
