"""Device adapters: the engines that host models, each behind its own lazy door."""
