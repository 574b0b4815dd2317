from wrap import indent, wrap

assert wrap("", 10) == []
assert wrap("one two", 3) == ["one", "two"]
assert wrap("to be or not", 5) == ["to be", "or", "not"], "a line may have exactly as many characters as the width"
assert indent(["a", ""], 2) == ["  a", ""]
