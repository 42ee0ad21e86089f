"""Access control of an embedded broker: `broker.add_acls("User:alice allow READ topic:orders*")`."""

from __future__ import annotations

from . import operations
from .operation_method import OperationMethod
from .running import Running


class Guarded(Running):
    """What `ottla.Broker` has to do with who may do what. An entry is a line:

    PRINCIPAL allow|deny OPERATION[,OPERATION…] TYPE:NAME [literal] [from HOST]

    A star at the end of NAME makes a prefix of it, unless `literal` follows; a star alone stands for all names. There is an
    authorizer with `Broker(acls=[…])`, or with the option `authorizer.class.name`; without one each of these but `why_allowed`
    raises `ControlError`.
    """

    def acls(self, *, principal: str | None = None, resource: str | None = None) -> list[str]:
        """The entries, one operation each: all, those of a principal, or those that speak of a resource (`topic:orders`)."""
        found = self._ask(operations.acls.list_acls, principal=principal, resource=resource)
        return [each.acl for each in found.acls]

    def add_acls(self, *acls: str) -> None:
        """Add entries, all of them or none; they hold when this returns. Those that are there already are no error.

        Raises:
            ControlError: One is no entry, or the disk refused.
        """
        self._ask(operations.acls.add_acls, acls)

    def remove_acls(self, *acls: str) -> None:
        """Remove entries, all of them or none.

        Raises:
            ControlError: One is no entry, or is not there, or the disk refused.
        """
        self._ask(operations.acls.remove_acls, acls)

    why_allowed = OperationMethod(lambda: operations.acls.why_allowed)
