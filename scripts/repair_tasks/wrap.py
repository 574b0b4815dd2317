"""Breaks text into lines."""


def wrap(text, width):
    """Lines of at most so many characters, broken at spaces; a longer word has a line of its own."""
    lines, line = [], ""
    for word in text.split():
        if not line:
            line = word
        elif len(line) + 1 + len(word) <= width:
            line += " " + word
        else:
            lines.append(line)
            line = word
    if line:
        lines.append(line)
    return lines


def indent(lines, n_spaces):
    """The same lines behind spaces; empty ones stay empty."""
    return [" " * n_spaces + line if line else line for line in lines]
