"""Roman numerals from 1 to 3999."""

PARTS = [("M", 1000), ("CM", 900), ("D", 500), ("CD", 400), ("C", 100), ("XC", 90), ("L", 50), ("XL", 40), ("X", 10), ("IX", 9), ("V", 5),
         ("IV", 4), ("I", 1)]
VALUES = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100, "D": 500, "M": 1000}


def to_roman(number):
    """The numeral of a number."""
    if not 1 <= number <= 3999:
        raise ValueError(f"{number} has no Roman numeral")
    out = ""
    for part, value in PARTS:
        while number >= value:
            out += part
            number -= value
    return out


def from_roman(text):
    """The number that a numeral stands for."""
    total = 0
    for i, letter in enumerate(text):
        value = VALUES[letter]
        if i + 1 < len(text) and value < VALUES[text[i + 1]]:
            total -= value
        else:
            total += value
    return total
