"""Measurements: every claim of speed in this project comes from a program in this folder."""
