"""The codec: bytes on the wire to commands, replies to bytes, frames to columns. Knows no socket and no command."""
