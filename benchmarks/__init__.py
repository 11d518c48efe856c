"""Measures and checks the engine against outside witnesses, turn by turn on the same machine."""
