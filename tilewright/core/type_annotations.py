"""Types of variables as the legacy API writes them: `PrimType("int32")`, and pointers to elements in some memory."""

from __future__ import annotations

from dataclasses import dataclass

from .dtype import DType
from .errors import UserError
from .hardware import MemoryScope


@dataclass(frozen=True)
class PrimType:
    """The type of a number, a condition or a vector.

    Parameters
    ----------
    dtype
        Its name, such as "float32".

    Raises
    ------
    UserError
        For an unknown type.
    """

    dtype: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", DType(self.dtype))

    @property
    def type_name(self) -> str:
        """The data type of a variable of this type."""
        return self.dtype


@dataclass(frozen=True)
class PointerType:
    """The type of a pointer; its variables have the data type "handle".

    Parameters
    ----------
    element_type
        The type of the element.
    storage_scope
        The memory of the element: "global", "shared", "local", or "" if unspecified. A kind of that memory may follow
        ("global.texture"): the type keeps it, and no target here has one.

    Raises
    ------
    UserError
        For an element that is not a type, and for an unknown memory.
    """

    element_type: PrimType | PointerType
    storage_scope: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.element_type, (PrimType, PointerType)):
            raise UserError(
                f"{self.element_type!r} is not a type", primitive="PointerType", fix='give PrimType("float32")'
            )
        whole, memory = self.storage_scope, self.storage_scope.partition(".")[0]
        if whole != "" and MemoryScope.parse(whole) is None and MemoryScope.parse(memory) is None:
            raise UserError(
                f"there is no memory scope {self.storage_scope!r}",
                primitive="PointerType",
                fix='use "global", "shared" or "local"',
            )

    @property
    def type_name(self) -> str:
        """The data type of a variable of this type."""
        return "handle"


TypeAnnotation = PrimType | PointerType
