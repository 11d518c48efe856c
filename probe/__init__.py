"""ZeroProbe's reading side: the run directory, what can be understood from it, and the terminal.

Nothing heavy is imported here, and nothing of `engine` ever: a laptop without torch opens any run.
"""

__version__ = "0.1.0"
