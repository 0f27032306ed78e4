"""The folder for data kept between processes, and the check of its owners.

Kept kernels are code: whoever can put a file there runs programs as the user. A folder or a file therefore counts only
if this user or the superuser owns it and not everybody may write to it.
"""

from __future__ import annotations

import errno
import os
import stat

from .system import user

DIRECTORY_VARIABLE = "TILEWRIGHT_CACHE"
_OFF = ("", "0", "off")


def cache_folder() -> str | None:
    """The folder that the environment names, or the default one; None if it says to keep nothing.

    It is text: importing `pathlib` takes a tenth of the time in which a process starts a known kernel.
    """
    given = os.environ.get(DIRECTORY_VARIABLE)
    if given is not None:
        return None if given.lower() in _OFF else given
    base = os.environ.get("XDG_CACHE_HOME") or ""
    usual = base if base.startswith("/") else os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(usual, "tilewright", "kernels")


def private_folder(path: str) -> None:
    """Create a folder and its missing parents, with access for this user only."""
    if os.path.isdir(path):
        return
    above = os.path.dirname(path)
    if above and not os.path.exists(above):
        private_folder(above)
    try:
        os.mkdir(path, 0o700)
    except FileExistsError as error:
        if not os.path.isdir(path):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path) from error


def distrust(found: os.stat_result) -> str:
    """Return the reason not to run code in a file or folder of this status, as the end of a sentence, or "".

    In a folder with the sticky bit, such as `/tmp`, everybody creates files, and nobody replaces other users' files.
    """
    owner, own = found.st_uid, user()
    if own is None:  # the platform has no modes of files that say who may write
        return ""
    if owner not in (own, 0):
        return f"belongs to user {owner}, and this process runs as user {own}"
    sticky = stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX
    if found.st_mode & stat.S_IWOTH and not sticky:
        return f"can be written by everybody (mode {stat.S_IMODE(found.st_mode):04o})"
    return ""


def remedy(path: str, found: os.stat_result) -> str:
    """The fix for a distrusted folder of kernels, or a folder with a distrusted file."""
    if found.st_uid not in (user(), 0):
        return f"set {DIRECTORY_VARIABLE} to a folder of this user, or to 0 to keep none"
    return f"chmod -R go-w {path}, after a look at who wrote in it, or empty it"
