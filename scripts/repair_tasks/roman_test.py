from roman import from_roman, to_roman

assert to_roman(1994) == "MCMXCIV"
assert from_roman("XII") == 12
assert from_roman("IX") == 9, "a smaller letter before a greater one is taken off"
assert all(from_roman(to_roman(n)) == n for n in (4, 40, 444, 2024))
