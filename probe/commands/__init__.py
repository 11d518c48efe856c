"""What people type: one file a verb, which parses, asks the other rooms and prints what they say.

The module of a verb is light: whatever needs pyarrow or rich is imported where it is used, so that
`probe --help` and tab completion answer at once.
"""
