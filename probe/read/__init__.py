"""Reading a run directory, live, finished, crashed or half copied; bad data becomes `Problem`s.

`run.load_run` opens one run, `discovery.find_runs` lists a folder of them, `tail.Tail` follows a
live one. Nothing in a run is executed, no path found in one is followed, no size is believed.
"""
