"""Checks brackets in a text."""

CLOSES = {")": "(", "]": "[", "}": "{"}


def balanced(text):
    """Whether every bracket is closed by its own kind, in the right order."""
    open_ones = []
    for letter in text:
        if letter in CLOSES.values():
            open_ones.append(letter)
        elif letter in CLOSES:
            if not open_ones or open_ones.pop() != CLOSES[letter]:
                return False
    return not open_ones


def depth(text):
    """How many brackets are open at once, at most."""
    now = most = 0
    for letter in text:
        if letter in CLOSES.values():
            now += 1
            most = max(most, now)
        elif letter in CLOSES:
            now -= 1
    return most
