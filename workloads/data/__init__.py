"""Data sets that come with the package. See README.md."""
