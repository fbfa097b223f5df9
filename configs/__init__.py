"""Run configurations that come with the package."""
