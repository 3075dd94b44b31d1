"""History: the last hour of many numbers, in memory of a fixed size. Pure: knows no server, clock or browser."""
