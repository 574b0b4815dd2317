from search import contains, count, first_at_least

assert first_at_least([1, 3, 3, 7], 3) == 1
assert contains([2, 4], 4)
assert not contains([2, 4], 9), "what is greater than all values is not in the list"
assert count([1, 3, 3, 7], 3) == 2
