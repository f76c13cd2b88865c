"""Where the beginning of a continuation repeats the end of what there is."""

from faber.responses.response_errors import ChunkMergeError

_SEED, _HEAD = 16, 512
_MOST_PLACES = 64
# Characters that are compared at most, far more than any response needs. Without a limit, two texts of one character
# repeated would be compared at every place, each time whole.
_MOST_COMPARED = 1 << 30


def overlaps(certain: str, view: str) -> list[int]:
    """By how many characters `view` can begin with the end of `certain`; the few first, then by the place.

    Raises `ChunkMergeError` where there are too many, or too many that nearly are.
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
