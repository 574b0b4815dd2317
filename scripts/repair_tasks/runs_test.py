from runs import decode, encode, longest

assert encode("aaab") == [("a", 3), ("b", 1)], "a letter's first time counts, too"
assert decode(encode("hello")) == "hello"
assert longest("abbcc") == "b"
assert longest("") is None
