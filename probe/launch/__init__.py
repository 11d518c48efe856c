"""Starting a training run and writing down how it went.

The launcher never imports the engine or torch: it starts processes and reads what they leave.
"""
