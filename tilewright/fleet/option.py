"""`RPCRunner`: the runner that measures on a fleet, under the name and the arguments of the legacy API."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..core.errors import UserError
from ..measure.option import LocalRunner
from .addresses import checked, joined


@dataclass(frozen=True, init=False)
class RPCRunner(LocalRunner):
    """Run on the devices of a fleet, the workers of a Dask scheduler.

    Parameters
    ----------
    key : str
        The devices to use: a key that `tilewright worker --key` announces, or a part of the device's name, such as
        "h200". Empty: the model that most workers have.
    host : str
        The host of the scheduler, or its address as Dask writes it: "tls://scheduler:8786".
    port : int, optional
        The port of the scheduler. Not needed if `host` is an address.
    priority : int
        Accepted for old scripts, and ignored.
    timeout, n_parallel, number, repeat, min_repeat_ms, cooldown_interval, enable_cpu_cache_flush, module_loader
        As for `LocalRunner`. `n_parallel` is the largest number of devices to use.
    check_correctness : bool
        Whether outputs are compared with a reference.
    insecure : bool
        Whether a scheduler on another host is used without TLS. Whoever reaches its port can then run code on all hosts
        of the fleet, including this one.

    Raises
    ------
    UserError
        For an invalid address, and for one that needs TLS.
    """

    key: str = ""
    host: str = ""
    port: int | None = None
    priority: int = 1
    insecure: bool = False

    def __init__(
        self,
        key: str,
        host: str,
        port: int | None = None,
        priority: int = 1,
        timeout: float = 10,
        n_parallel: int | None = None,
        number: int = 4,
        repeat: int = 3,
        min_repeat_ms: float = 0,
        cooldown_interval: float = 0.1,
        enable_cpu_cache_flush: bool = False,
        module_loader: Any = None,
        check_correctness: bool = True,
        insecure: bool = False,
    ) -> None:
        super().__init__(
            timeout, number, repeat, min_repeat_ms, cooldown_interval, enable_cpu_cache_flush, module_loader,
            n_parallel, check_correctness,
        )  # fmt: skip
        if key is not None and not isinstance(key, str):
            raise UserError(
                f"key={key!r} is not text", primitive="RPCRunner", fix='give a part of the device\'s name: "h200"'
            )
        for name, value in {
            "key": key or "", "host": host, "port": port, "priority": priority, "insecure": bool(insecure),
        }.items():  # fmt: skip
            object.__setattr__(self, name, value)
        checked(self.address, self.insecure)

    @property
    def address(self) -> str:
        """The scheduler's address as Dask writes it."""
        return joined(self.host, self.port)

    @property
    def local(self) -> LocalRunner:
        """The options of a worker of the fleet: how to run, on its one device."""
        return LocalRunner(
            self.timeout, self.number, self.repeat, self.min_repeat_ms, self.cooldown_interval,
            self.enable_cpu_cache_flush, None, None, self.check_correctness,
        )  # fmt: skip
