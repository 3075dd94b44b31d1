"""What users may do: the language of ACL rules, and the check of a command against them.

It may import the command table and what is below it. It never knows who is connected or logged in.
"""
