"""Binary search in sorted lists."""


def first_at_least(values, wanted):
    """Where the first value is that is not smaller than the one wanted; len(values) if there is none."""
    low, high = 0, len(values)
    while low < high:
        middle = (low + high) // 2
        if values[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low


def contains(values, wanted):
    """Whether a sorted list has a value."""
    at = first_at_least(values, wanted)
    return at < len(values) and values[at] == wanted


def count(values, wanted):
    """How often a value stands in a sorted list of whole numbers."""
    return first_at_least(values, wanted + 1) - first_at_least(values, wanted)
