"""Parsing of commands: an option of one value may be given once."""

from __future__ import annotations

from collections import Counter
from typing import Any

from typer.core import TyperCommand


class Verb(TyperCommand):
    """A command that refuses a second value for an option of one value, where the parser keeps the last."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """
        Read the words of a user.

        Parameters
        ----------
        ctx : typer.Context
        args : list of str
            What follows the name of the command.

        Returns
        -------
        list of str
            What is left over.
        """
        from ..errors import InputError

        _, _, order = self.make_parser(ctx).parse_args(args=list(args))
        for option, count in Counter(order).items():
            several = getattr(option, "multiple", False) or option.param_type_name == "argument"
            # The same switch twice says nothing else; one that can be turned off again does.
            switch = getattr(option, "is_flag", False) and not option.secondary_opts
            if count > 1 and not several and not switch:
                raise InputError(
                    f"{max(option.opts, key=len)} must be given once, but it was given {count} times; leave "
                    "one of them, or run the command once for each."
                )
        return super().parse_args(ctx, args)
