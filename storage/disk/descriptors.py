"""The descriptors of this process: who keeps one for long leaves the last ones to work that is soon done with its own.

Each connection and each segment holds a descriptor, and clients decide how many there are. What gives them back needs one
for a moment: retention and clean passes open and sync files, the deletion of a topic writes the catalog. So connections and
new segments are refused a little before none is left, connections first.

    0 ...                                         limit - 64      limit - 32      limit (`ulimit -n`)
    | connections, segments, all else             | segments      | short work    |

The system gives the lowest number that is free, so a high one tells that all below are taken.
"""

import resource

KEPT_FOR_SHORT_WORK = 32
KEPT_FOR_SEGMENTS = 2 * KEPT_FOR_SHORT_WORK
_PART_AT_MOST = 8
"""If the limit is small, at most one in so many descriptors is reserved for short work, and twice that for segments."""


def is_scarce(descriptor: int, kept: int) -> bool:
    """Whether one that was just given is among the last `kept` of this process."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return False
    return descriptor >= limit - min(kept, limit // _PART_AT_MOST * (kept // KEPT_FOR_SHORT_WORK))
