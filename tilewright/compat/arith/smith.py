"""The Smith normal form of an integer matrix: a diagonal one, by row and column operations that can be undone."""

from __future__ import annotations

Matrix = list[list[int]]


def _identity(n: int) -> Matrix:
    return [[int(i == j) for j in range(n)] for i in range(n)]


def smith_normal_form(rows: Matrix, width: int) -> tuple[list[int], Matrix, Matrix, Matrix]:
    """Return the diagonal of U A V, U, V, and the inverse of V.

    U and V are products of elementary operations, so that both have integer inverses. The diagonal holds the positive
    numbers alone: further rows and columns of U A V are zero. A column of V that goes with a zero column, a solution of
    A x = 0, has a positive first entry.
    """
    a = [list(row) for row in rows]
    left, right, back = _identity(len(a)), _identity(width), _identity(width)

    def swap_rows(i: int, j: int) -> None:
        a[i], a[j] = a[j], a[i]
        left[i], left[j] = left[j], left[i]

    def add_row(to: int, source: int, k: int) -> None:
        for m in (a, left):
            m[to] = [x + k * y for x, y in zip(m[to], m[source], strict=True)]

    def swap_columns(i: int, j: int) -> None:
        for row in (*a, *right):
            row[i], row[j] = row[j], row[i]
        back[i], back[j] = back[j], back[i]

    def add_column(to: int, source: int, k: int) -> None:
        for row in (*a, *right):
            row[to] += k * row[source]
        back[source] = [x - k * y for x, y in zip(back[source], back[to], strict=True)]

    def negate_column(j: int) -> None:
        for row in (*a, *right):
            row[j] = -row[j]
        back[j] = [-x for x in back[j]]

    size = 0
    while size < min(len(a), width):
        places = [(abs(a[i][j]), i, j) for i in range(size, len(a)) for j in range(size, width) if a[i][j]]
        if not places:
            break
        # The smallest entry, so that each round of remainders makes it smaller. Of equal ones the first, so that a
        # variable gets its value from its own equation.
        _, i, j = min(places)
        swap_rows(size, i)
        swap_columns(size, j)
        pivot = a[size][size]
        for i in range(size + 1, len(a)):
            add_row(i, size, -(a[i][size] // pivot))
        for j in range(size + 1, width):
            add_column(j, size, -(a[size][j] // pivot))
        if not any(a[i][size] for i in range(size + 1, len(a))) and not any(a[size][size + 1 :]):
            if pivot < 0:
                negate_column(size)
            size += 1
    for j in range(size, width):
        first = next((row[j] for row in right if row[j]), 1)
        if first < 0:
            negate_column(j)
    return [a[i][i] for i in range(size)], left, right, back
