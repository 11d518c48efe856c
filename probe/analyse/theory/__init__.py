"""What must be held and moved, worked out on paper: closed forms that need no run and no torch."""
