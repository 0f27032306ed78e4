"""The numbers of the kinds of data types, by their names in the legacy API."""


class DataTypeCode:
    """The values of `DataType.type_code`."""

    INT = 0
    UINT = 1
    FLOAT = 2
    HANDLE = 3
    BFLOAT = 4
