"""The kill test: a streaming job from stream to stream, with everything around it killed at random moments."""
