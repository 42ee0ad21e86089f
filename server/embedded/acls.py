"""Access control of an embedded broker: `broker.add_acls("User:alice allow READ topic:orders*")`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .running import Running

if TYPE_CHECKING:  # Loaded when somebody asks for it: no start shall wait for that.
    from ..control.acls import AclDecision


class Guarded(Running):
    """What `ottla.Broker` has to do with who may do what. An entry is a line:

    PRINCIPAL allow|deny OPERATION[,OPERATION…] TYPE:NAME [literal] [from HOST]

    A star at the end of NAME makes a prefix of it, unless `literal` follows; a star alone stands for all names. There is an
    authorizer with `Broker(acls=[…])`, or with the option `authorizer.class.name`; without one each of these but `why_allowed`
    raises `ControlError`.
    """

    def acls(self, *, principal: str | None = None, resource: str | None = None) -> list[str]:
        """The entries, one operation each: all, those of a principal, or those that speak of a resource (`topic:orders`)."""
        from ..control.acls import list_acls

        found = self._ask(list_acls, principal=principal, resource=resource)
        return [each.acl for each in found.acls]

    def add_acls(self, *acls: str) -> None:
        """Add entries, all of them or none; they hold when this returns. Those that are there already are no error.

        Raises:
            ControlError: One is no entry, or the disk refused.
        """
        from ..control.acls import add_acls

        self._ask(add_acls, acls)

    def remove_acls(self, *acls: str) -> None:
        """Remove entries, all of them or none.

        Raises:
            ControlError: One is no entry, or is not there, or the disk refused.
        """
        from ..control.acls import remove_acls

        self._ask(remove_acls, acls)

    def why_allowed(self, principal: str, operation: str, resource: str, *, host: str = "127.0.0.1") -> AclDecision:
        """Whether `User:alice` may do an operation (`READ`) to a resource (`topic:orders`), and which entry decides.

        Raises:
            ControlError: One of them is none.
        """
        from ..control.acls import why_allowed

        return self._ask(why_allowed, principal, operation, resource, host=host)
