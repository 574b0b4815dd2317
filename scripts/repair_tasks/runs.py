"""Run-length encoding: "aaab" is [("a", 3), ("b", 1)]."""


def encode(text):
    """Each letter with how often it follows itself."""
    out = []
    for letter in text:
        if out and out[-1][0] == letter:
            out[-1] = (letter, out[-1][1] + 1)
        else:
            out.append((letter, 1))
    return out


def decode(runs):
    """The text that was encoded."""
    return "".join(letter * n for letter, n in runs)


def longest(text):
    """The letter of the longest run, the first of several; None for an empty text."""
    best, n_best = None, 0
    for letter, n in encode(text):
        if n > n_best:
            best, n_best = letter, n
    return best
