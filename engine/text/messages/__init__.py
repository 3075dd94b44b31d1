"""Every text that is sent to clients, in one module for each package of commands.

Texts are bytes that start with the error code, without the leading ``-``. Functions return the texts that contain
names. No other module of the engine contains the text of an error. The package imports nothing.
"""
