"""The one contract between the side that measures and the side that understands.

What a run directory holds, stated once: names of files (`layout`), closed sets of words
(`vocabulary`), rows and their columns (`rows`, `tables`), the documents (`manifest`, `header`,
`heartbeat`) and how a value becomes bytes (`codec`). No heavy library is imported here.
"""
