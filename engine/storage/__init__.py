"""Where a rank's shards rest between uses: on the device, in host memory or on disk.

place.py      a place, a shelf in it, and both for memory
disk.py       the same on disk: read ahead, written behind, in threads of their own
disk_file.py  one preallocated file, its records and what can be wrong with them
buffers.py    the aligned host memory between disk and whoever works on a shelf
shard.py      one flat tensor on a shelf, lent to the device that needs it
link.py       gradients out and weights back, between device and host
places.py     from a configuration to its places
traffic.py    what moved, how long it took, who stood still
"""

from engine.storage.place import Item, MemoryPlace, Place, Shelf
from engine.storage.places import Places
from engine.storage.shard import Shard

__all__ = ["Item", "MemoryPlace", "Place", "Places", "Shard", "Shelf"]
