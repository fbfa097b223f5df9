"""Is this machine ready, and what would disturb a measurement on it? `examine.examine()` tells."""
