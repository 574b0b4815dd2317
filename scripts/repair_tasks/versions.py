"""Versions such as 1.10.2."""


def parse(text):
    """The numbers of a version."""
    return tuple(int(part) for part in text.split("."))


def newest(texts):
    """The greatest version of a list; None if it is empty."""
    return max(texts, key=parse, default=None)


def is_compatible(wanted, given):
    """Whether a given version serves who wanted another one: the same major number, and not older."""
    return parse(wanted)[0] == parse(given)[0] and parse(given) >= parse(wanted)


def next_minor(text):
    """The version that follows when something is added: its patch number begins at 0 again."""
    major, minor, _ = parse(text)
    return f"{major}.{minor + 1}.0"
