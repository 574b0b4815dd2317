from brackets import balanced, depth

assert balanced("{[()]}")
assert not balanced("(]")
assert not balanced("(("), "brackets that stay open are not balanced"
assert depth("(()(()))") == 3
