from average import median, smooth

assert smooth([2, 4, 6, 8], 2) == [2, 3, 5, 7], "the oldest value leaves the window, not the newest"
assert median([5, 1, 3]) == 3
assert median([4, 1, 3, 2]) == 2.5
