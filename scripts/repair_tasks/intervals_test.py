from intervals import length, merge, overlap

assert not overlap((0, 3), (3, 5))
assert merge([(5, 9), (1, 3)]) == [(1, 3), (5, 9)]
assert merge([(1, 10), (2, 4)]) == [(1, 10)], "a range inside another one must not shorten it"
assert length([(0, 4), (2, 6)]) == 6
