"""Functions of a CPU as C11, for any C compiler."""
