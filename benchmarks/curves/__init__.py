"""Cost against size: the cost of commands with ten thousand to a hundred million entries, with one to ten thousand
streams, one to a thousand clients, and none to ten million pending entries. Measured on one server after another, and
drawn.
"""
