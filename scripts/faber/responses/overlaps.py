"""Where the beginning of a continuation repeats the end of the text before it."""

from faber.responses.response_errors import ChunkMergeError

_SEED, _HEAD = 16, 512
_MOST_PLACES = 64
# How many characters are compared at most, far more than a real response needs. Without a limit, comparing two texts
# that repeat one character would take quadratic time.
_MOST_COMPARED = 1 << 30


def overlaps(certain: str, view: str) -> list[int]:
    """The lengths of the suffixes of `certain` that `view` begins with: short ones first, then by their place.

    Raises `ChunkMergeError` if there are too many, or too many near misses.
    """
    end = len(certain)
    sizes = [size for size in range(1, min(_SEED, end + 1, len(view) + 1)) if certain.endswith(view[:size])]
    if len(view) < _SEED:
        return sizes
    seed, head, tail = view[:_SEED], view[:_HEAD], certain[-_SEED:]
    compared = 0
    at = certain.find(seed, max(0, end - len(view)))
    while at >= 0:
        size = end - at
        alike = certain.startswith(head[:size], at) and view.startswith(tail, size - len(tail))
        compared += size if alike else _SEED
        if alike and view.startswith(certain[at:]):
            sizes.append(size)
        if len(sizes) > _MOST_PLACES or compared > _MOST_COMPARED:
            raise ChunkMergeError("The continuation fits at too many places.", reason="ambiguous")
        at = certain.find(seed, at + 1)
    return sizes
