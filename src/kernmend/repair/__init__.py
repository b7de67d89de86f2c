"""Mending: rows against good ones, how that is calibrated, missing entries."""
