"""Matrices as lists of rows."""


def shape(rows):
    """Numbers of rows and columns."""
    return len(rows), len(rows[0])


def transpose(rows):
    """Columns become rows."""
    n_rows, n_columns = shape(rows)
    return [[rows[i][j] for i in range(n_rows)] for j in range(n_columns)]


def multiply(a, b):
    """The product of two matrices; a ValueError if they do not fit."""
    if shape(a)[1] != shape(b)[0]:
        raise ValueError(f"{shape(a)} times {shape(b)}")
    columns = transpose(b)
    return [[sum(x * y for x, y in zip(row, column)) for column in columns] for row in a]


def identity(n):
    """Ones from the upper left to the lower right."""
    return [[1 if i == j else 0 for j in range(n)] for i in range(n)]
