from matrix import identity, multiply, transpose

assert transpose([[1, 2, 3], [4, 5, 6]]) == [[1, 4], [2, 5], [3, 6]]
assert multiply([[1, 2]], [[3], [4]]) == [[11]]
try:
    multiply([[1, 2]], [[3]])
    assert False, "matrices that do not fit must be refused with a ValueError"
except ValueError:
    pass
assert multiply(identity(2), [[5, 6], [7, 8]]) == [[5, 6], [7, 8]]
