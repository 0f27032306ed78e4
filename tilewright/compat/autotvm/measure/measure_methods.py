"""The legacy module of the builders and runners that come with the package."""

from typing import TYPE_CHECKING

from ....core.refusals import old_name as _old_name
from ....fleet.option import RPCRunner as RPCRunner
from ....measure.option import LocalBuilder as LocalBuilder
from ....measure.option import LocalRunner as LocalRunner

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        return _old_name(__name__, name, globals())
