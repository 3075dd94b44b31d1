"""Cost against size: the cost of commands with ten thousand to a hundred million entries, one to ten thousand streams
or groups, one to a hundred thousand consumers, one to a thousand clients, and up to ten million pending entries.

The servers are measured one after another. The results are drawn as charts.
"""
