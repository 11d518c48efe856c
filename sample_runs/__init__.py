"""Recordings for the demo and for strangers, made by our own commands."""
