"""Functions that are not scripts of the hybrid language.

Each has one line `# here: says | fix`, which is at fault, with a part of the message and of the remedy.
"""

from __future__ import annotations

import inspect

import numpy as np

from tilewright import te

# ruff: noqa: F401, RET503, RET504, RUF040, B007, F821, F841  # these are mistakes, in words that are known to scripts

OUTSIDE = te.placeholder((4,), name="outside")
HERE = "# here"


def while_loop(a):
    b = output_tensor((4,), "float32")
    while len(a) == 4:  # here: the condition `len(a) == 4` of the loop never changes | a variable that it assigns
        b[0] = 1.0
    return b


def while_else(a):
    i = 0
    while i < 4:  # here: a loop has no else in a script | after the loop
        i += 1
    else:
        i = 2


def breaks(a):
    b = output_tensor((4,), "float32")
    for i in range(4):
        if a[i] > 0:
            break  # here: break is not in the hybrid language | under an `if`
    return b


def skips(a):
    b = output_tensor((4,), "float32")
    for i in range(4):
        continue  # here: continue is not in | under an `if`
    return b


def with_block(a):
    with open("x"):  # here: with is not in | for i in parallel(n)
        pass


def tries(a):
    try:  # here: try is not in | test the condition
        pass
    finally:
        pass


def raises(a):
    raise ValueError  # here: raise is not in | assert condition


def imports(a):
    import math  # here: import is not in | import outside


def defines(a):
    def inner():  # here: a function inside of the script | define it outside
        pass


def annotates(a):
    x: float = 1.0  # here: an annotated assignment | x = float32(0)


def deletes(a):
    b = output_tensor((4,), "float32")
    del b  # here: del is not in | storage ends with its block


def global_name(a):
    global OUTSIDE  # here: global is not in | output_tensor


def comprehension(a):
    b = output_tensor((4,), "float32")
    b[0] = [a[i] for i in range(4)]  # here: a list comprehension is not in | const_range


def lambdas(a):
    f = lambda x: x  # here: lambda is not in | outside of the script


def dictionary(a):
    f = {1: 2}  # here: a dict is not in | outside


def walrus(a):
    b = output_tensor((4,), "float32")
    b[0] = (x := a[0])  # here: := is not in | a line of its own


def formatted(a):
    x = f"{a}"  # here: an f-string is not in | as it is


def slices(a):
    b = output_tensor((4,), "float32")
    b[0] = a[0:2]  # here: a slice is not in | a loop over the elements


def prints(a):
    print(a)  # here: print is not in the hybrid language | call its words


def spells_numpy(a):
    b = output_tensor((4,), "float32")
    b[0] = np.exp(a[0])  # here: np.exp is not a word | write exp(...)


def loops_over_a_list(a):
    for x in [1, 2]:  # here: the loop runs over `[1, 2]` | loop with one of range
        pass


def two_variables(a):
    for i, j in range(4):  # here: a loop has one variable | for i in range(n)
        pass


def unknown_thread(a):
    for i in bind("thread.x", 4):  # here: `bind('thread.x', 4)` is not understood | bind("threadIdx.x", extent)
        pass


def step_of_zero(a):
    for i in range(0, 4, 0):  # here: the step of the loop is 0 | another
        pass


def step_unknown(a):
    for i in range(0, 4, OUTSIDE_N):  # here: is not constant | give an int
        pass


def four_ends(a):
    for i in range(1, 2, 3, 4):  # here: is not understood | range(begin, end)
        pass


def const_range_unknown(a):
    for i in const_range(OUTSIDE_N):  # here: are not constant | use range
        pass


def unroll_unknown(a):
    for i in unroll(OUTSIDE_N):  # here: the extent `n` of unroll is not constant | parallel
        pass


def float_end(a):
    for i in range(1.5):  # here: the end of the loop `1.5` is float 1.5, not an integer | an integer
        pass


def loop_over_an_array_name(a):
    b = output_tensor((4,), "float32")
    for b in range(4):  # here: 'b' has a value already | a name of its own
        pass


def stores_the_loop_variable(a):
    for i in range(4):
        i = 2  # here: 'i' is the variable of a loop | another name


def stores_a_parameter(a):
    a = 2  # here: 'a' is a parameter | another name


def not_defined(a):
    b = output_tensor((4,), "float32")
    b[0] = nowhere  # here: 'nowhere' is not defined | from outside of not_defined


def not_on_every_way(a):
    b = output_tensor((4,), "float32")
    for i in range(4):
        s = a[i]
    b[0] = s  # here: 's' has no value here on some paths | assign s before the loop
    return b


def only_in_one_branch(a):
    b = output_tensor((4,), "float32")
    if a[0] > 0:
        s = 1.0
    b[0] = s  # here: 's' has no value here on some paths | before the loop or the if
    return b


def changes_type(a):
    b = output_tensor((4,), "float32")
    s = 0
    for i in range(4):
        s = s + a[i]  # here: 's' is int32 since line | begin with s = float32(...)
    return b


def stores_float_as_int(a):
    b = output_tensor((4,), "int32")
    b[0] = a[0]  # here: `b[0]` is int32, but is assigned float32 | int32(...)


def divides_integers(a):
    b = output_tensor((4,), "float32")
    b[0] = 1 / 2  # here: divides two integers | write // for the integer quotient


def two_arrays(a):
    b = allocate((4,), "float32")
    c = b  # here: 'c' is the name of more than one array | two names
    c = a


def an_array_as_a_number(a):
    b = output_tensor((4,), "float32")
    b[0] = a + 1  # here: `a` is the array 'a', not a number | a[i]


def an_array_as_an_element(a):
    b = output_tensor((4,), "float32")
    b[0] = a  # here: an element is assigned an array | b[i]


def an_array_as_a_condition(a):
    if a:  # here: the array `a` is not a condition | an element
        pass


def too_many_indices(a):
    b = output_tensor((4,), "float32")
    b[0, 1] = 1.0  # here: has 1 dimension, but `b[0, 1]` gives 2 | one index per dimension


def beyond_the_end(a):
    b = output_tensor((4,), "float32")
    b[4] = 1.0  # here: the index 4 of `b[4]` is outside of 0 to 3 | inside


def from_the_end(a):
    b = output_tensor((4,), "float32")
    b[-1] = 1.0  # here: the index -1 of | a[n - 1]


def float_index(a):
    b = output_tensor((4,), "float32")
    b[0.5] = 1.0  # here: the index `0.5` is float 0.5 | integer


def unknown_attribute(a):
    x = a.strides  # here: an array has no 'strides' | shape, ndim, dtype


def calls_astype(a):
    b = output_tensor((4,), "float32")
    b[0] = a[0].astype("int32")  # here: a number has no 'astype' | float32(x)


def index_of_a_tuple(a):
    b = output_tensor((4,), "float32")
    for i in range(1):
        b[i] = a.shape[i]  # here: takes a part of tuple | const_range


def beyond_a_tuple(a):
    b = output_tensor((a.shape[1],), "float32")  # here: there are 1 parts | smaller


def assigns_two(a):
    x = y = 1.0  # here: several targets | one at a time


def unpacks_wrongly(a):
    x, y = 1.0, 2.0, 3.0  # here: 3 values are assigned to 2 names | one name per value


def assigns_a_call(a):
    f(a).x = 1  # here: `f(a).x` is not assigned to | an element


def assigns_a_part_of_a_tuple(a):
    x = (1, 2)
    x[0] = 3  # here: is a part of a tuple | an array


def output_in_a_loop(a):
    for i in range(4):
        b = output_tensor((4,), "float32")  # here: the output_tensor 'b' is made in a block | at the top


def output_in_shared_memory(a):
    b = output_tensor((4,), "float32", "shared")  # here: global memory | use allocate


def output_is_lost(a):
    output_tensor((4,), "float32")  # here: is not assigned to a name | b = output_tensor


def range_is_lost(a):
    x = range(4)  # here: range(...) is used outside of a for | for i in range


def allocate_twice(a):
    b = allocate((4,), "float32")  # here: assigned to a name with other values | its own name
    b = allocate((4,), "float32")


def allocate_without_a_shape(a):
    b = allocate()  # here: `allocate()` is not understood | allocate((n, m)


def allocate_a_strange_shape(a):
    b = allocate((1.5,), "float32")  # here: the shape `(1.5,)` is not one | integers


def returns_nothing(a):
    b = 1.0  # here: the script returns nothing | output_tensor b


def returns_an_input(a):
    return a  # here: `a` is not an output_tensor | the result of output_tensor


def returns_twice_the_same(a):
    b = output_tensor((4,), "float32")
    return b, b  # here: each output_tensor is returned once | return b, c


def returns_early(a):
    b = output_tensor((4,), "float32")
    if a[0] > 0:
        return b  # here: returns from within a block | at the end
    return b


def goes_on_after_the_return(a):
    b = output_tensor((4,), "float32")
    return b
    b[0] = 1.0  # here: a statement follows the return | at the end


def forgets_an_output(a):
    b = output_tensor((4,), "float32")
    c = output_tensor((4,), "float32")
    return b  # here: the output_tensor 'c' is not returned | allocate


def no_effect(a):
    a[0] + 1  # here: has no effect | assign it


def asserts_a_falsehood(a):
    assert len(a) == 5, "five are needed"  # here: five are needed | for which it holds


def asserts_with_a_number(a):
    assert a[0] > 0, 1  # here: the message of the assertion is not text | "message"


def calls_itself(a):
    x = CALLS_ITSELF(a)  # here: calls itself | write a loop


def calls_wrongly(a):
    x = CALLS_ITSELF(a, a)  # here: too many positional arguments | one value per parameter


def min_of_one(a):
    x = min(a[0])  # here: min of 1 value | min(a, b)


def exp_of_two(a):
    x = exp(a[0], a[1])  # here: exp does not take 2 arguments | exp(x)


def keywords(a):
    x = helper(x=1)  # here: keyword arguments are for the words | in order


def length_of_a_number(a):
    x = len(a[0])  # here: without a length | a tuple


def matrix_product(a):
    x = 1 @ 2  # here: `1 @ 2` is not in the hybrid language | use +


def compares_identity(a):
    x = a[0] is None  # here: is not in the hybrid language | compare numbers


def text_as_a_number(a):
    x = 1 + "a"  # here: `'a'` is str 'a', not a number | an element


def popcount_of_a_float(a):
    x = popcount(a[0])  # here: needs an integer | astype


def part_of_a_number(a):
    x = 1.0
    y = x[0]  # here: `x` is float 1.0, which has no parts | index an array


def two_indices_of_a_tuple(a):
    x = a.shape[0, 1]  # here: has no parts | give fewer indices


def no_such_attribute(a):
    x = np.nowhere  # here: has no attribute 'nowhere' | that is there


def an_ellipsis(a):
    x = ...  # here: `...` is not a number | give a number


def divides_by_zero(a):
    x = 1 // 0  # here: `1 // 0`: | defined


CALLS_ITSELF = te.hybrid.script(calls_itself)
OUTSIDE_N = te.var("n")
MISTAKES = [f for f in list(globals().values()) if inspect.isfunction(f) and HERE in inspect.getsource(f)]
