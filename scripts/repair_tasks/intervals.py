"""Half-open ranges [begin, end) of whole numbers."""


def overlap(first, second):
    """Whether two ranges share a number. Ranges that only touch do not."""
    return first[0] < second[1] and second[0] < first[1]


def merge(ranges):
    """The same numbers as few ranges as possible, in order; ranges that touch become one."""
    out = []
    for begin, end in sorted(ranges):
        if out and begin <= out[-1][1]:
            out[-1] = (out[-1][0], max(out[-1][1], end))
        else:
            out.append((begin, end))
    return out


def length(ranges):
    """How many numbers the ranges hold, each counted once."""
    return sum(end - begin for begin, end in merge(ranges))
