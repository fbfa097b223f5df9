"""Workloads: sessions to run and the scorers that judge them."""
