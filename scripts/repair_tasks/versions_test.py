from versions import is_compatible, newest, next_minor

assert newest(["1.9.0", "1.10.0", "1.2.5"]) == "1.10.0", "10 is greater than 9: numbers, not texts, are compared"
assert newest([]) is None
assert is_compatible("1.2.0", "1.3.0")
assert next_minor("1.2.7") == "1.3.0"
