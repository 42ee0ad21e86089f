"""How a fault is refused."""


class FaultError(Exception):
    """Why a fault cannot be declared, in one line."""
