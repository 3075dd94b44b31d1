"""Every text that goes over the wire, in a module for each room of commands.

Texts are bytes, the error code first, without the leading ``-``. Functions make the texts that contain names. No other
module of the engine spells an error out. The room imports nothing.
"""
