"""Coding-agent pipelines: recorded replay, and the pieces they share."""
