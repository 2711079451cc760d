"""The tree drawn in errors.py is the tree that is."""

import inspect
import re

from wakeful.values import errors


def drawn() -> dict[str, str]:
    """Each error of the drawing with its parent."""
    found: dict[str, str] = {}
    above: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        match = re.match(r"([│├└─ ]*)(\w+)(\s{2,}.*)?$", line)
        if not match or (
            not inspect.isclass(getattr(errors, match[2], getattr(__builtins__, match[2], None)))
            and match[2] != "BaseException"
        ):
            continue
        depth = len(match[1]) // 4
        above[depth:] = [match[2]]
        if depth:
            found[match[2]] = above[depth - 1]
    return found


def test_every_error_is_drawn_under_its_parent() -> None:
    real = {
        name: found.__mro__[1].__name__
        for name, found in vars(errors).items()
        if inspect.isclass(found) and issubclass(found, BaseException) and found.__module__ == errors.__name__
    }
    assert real.pop("WakefulError") == "Exception"
    assert drawn() == real


def test_every_error_has_a_stable_code_of_its_own_and_shows_it() -> None:
    classes = [
        found for found in vars(errors).values() if inspect.isclass(found) and issubclass(found, errors.WakefulError)
    ]
    codes = [found.default_code for found in classes]
    assert len(set(codes)) == len(codes)
    assert str(errors.BadName("no", code="name.key")) == "no [name.key]"
    assert errors.BadName("no").code == "name"


def test_fenced_passes_through_except_exception() -> None:
    assert not issubclass(errors.Fenced, Exception)
