"""Means over a window that moves."""


class MovingAverage:
    def __init__(self, size):
        self.size = size
        self.values = []

    def add(self, value):
        """Takes a value, and gives the mean of the newest ones, as many as the window has."""
        self.values.append(value)
        if len(self.values) > self.size:
            self.values.pop(0)
        return sum(self.values) / len(self.values)


def smooth(values, size):
    """The moving average at every place."""
    average = MovingAverage(size)
    return [average.add(value) for value in values]


def median(values):
    """The middle value; of an even number the mean of the two in the middle."""
    ordered = sorted(values)
    half = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[half]
    return (ordered[half - 1] + ordered[half]) / 2
