"""The commands that are sent to servers, and what is known of each."""

from __future__ import annotations

EXTENSIONS = ("PS.STATE", "PS.NTH", "PS.SPLIT", "PS.DELIVER", "PS.ACKRANGE")
"""The engine's own commands that a server must have to be asked in the engine's way."""

ENGINE_RULES = " ".join(f"+{name.lower()}" for name in EXTENSIONS)
"""The rules of ACL SETUSER that permit them."""
