"""Cost against size: charts of the cost of commands on each server. The servers are measured one after another.

The sizes go up to a hundred million entries, ten million pending entries, a hundred thousand consumers, ten thousand
streams or groups, and a thousand clients.
"""
