"""Cost against size: what a command costs with ten thousand entries and with a hundred million, with one stream and
ten thousand, one client and a thousand, nothing pending and ten millions. Measured on one server after the other, and
drawn.
"""
