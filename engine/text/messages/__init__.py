"""Error messages and some other replies to clients, in one module for each subject.

Error replies are bytes that start with the error code, without the leading ``-``. Functions return the messages that
contain values. This package imports no other package.
"""
