"""Whose things a caller sees in a list."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Everything of the tenants in `whole` (None = of every tenant), and what `user` has in the tenants in `own`."""

    whole: frozenset[str] | None = frozenset()
    own: frozenset[str] = frozenset()
    user: str = ""

    def takes(self, user: str, tenant: str) -> bool:
        if self.whole is None or tenant in self.whole:
            return True
        return user == self.user and tenant in self.own

    @property
    def only_tenant(self) -> str:
        """The one tenant that it reaches; empty when there are several, or none."""
        if self.whole is None:
            return ""
        names = self.whole | self.own
        return next(iter(names)) if len(names) == 1 else ""

    @property
    def only_user(self) -> str:
        """The one user whose things it reaches; empty when there are several."""
        return self.user if self.whole is not None and not self.whole else ""

    @property
    def is_empty(self) -> bool:
        return self.whole is not None and not self.whole and not self.own


EVERYTHING = Scope(whole=None)
