"""What stands out in a run and what to change: one rule a file, each with its threshold."""
