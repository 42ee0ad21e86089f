"""Arguments of `ottla.Broker` and `ottla.open_broker`, checked."""

from __future__ import annotations

import os
import random
import reprlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from inspect import Parameter, signature
from types import NoneType
from typing import TYPE_CHECKING, Any, NoReturn, TypedDict, TypeVar

from ...storage.disk.files import Files
from ...storage.topics.config import TOPIC_OPTIONS, ConfigError
from ..cluster.opening import static_config_with_stored_id
from ..config.emulation import release_of
from ..config.features import SUPPORTED
from ..config.options.known_options import BROKER_OPTIONS, find_option
from ..config.options.security_options import CLASS_NAME, HANDED_ON, STANDARD
from ..config.properties import Properties, refuse_comma
from ..config.sasl.options import OAUTHBEARER
from ..config.static_config import StaticConfig
from ..runtime.clock import Clock

if TYPE_CHECKING:
    from ..config.sasl.users import User
    from ..control.seed.seed import Seed
    from .sasl import TestTokenIssuer
    from .tls import Tls

Quotas = Mapping[str, Mapping[str, float]]
"""Quotas by entity, e.g. `client-id=app`, and key, e.g. `producer_byte_rate`."""

SeedSource = str | os.PathLike[str] | Mapping[str, Any]
"""The path of a YAML or JSON file, or its content; see `control.seed.seed`."""

TelemetryReceiver = str | os.PathLike[str] | Callable[[Any], object]
"""A directory for reports of clients' metrics, or a function of a `telemetry.receivers.ClientMetrics`."""

OptionValue = str | int | float | bool

Function = TypeVar("Function", bound=Callable[..., Any])

LISTENER = "127.0.0.1:0"


class BrokerArguments(TypedDict, total=False):
    """Arguments of `ottla.Broker` and `ottla.open_broker` in addition to `data_dir`."""

    nodes: int
    profile: str
    overrides: Mapping[str, OptionValue] | None
    features: Mapping[str, int] | None
    listener: str
    clock: Clock | None
    rng: random.Random | None
    admin: str | int | None
    admin_token: str | None
    schema_registry: bool | str | int
    emulate: str | None
    telemetry: TelemetryReceiver | None
    seed: SeedSource | None
    tls: bool
    users: Mapping[str, str] | None
    mechanism: str | None
    acls: Iterable[str] | None
    quotas: Quotas | None


_DEFAULTS: Mapping[str, Any] = dict.fromkeys(BrokerArguments.__annotations__) | {
    "nodes": 1,
    "profile": "dev",
    "listener": LISTENER,
    "schema_registry": False,
    "tls": False,
}
_TYPES: Mapping[str, tuple[Any, ...]] = {
    "tls": (bool,),
    "users": (Mapping, NoneType),
    "mechanism": (str, NoneType),
    "acls": (Iterable, NoneType),
    "quotas": (Mapping, NoneType),
    "nodes": (int,),
    "profile": (str,),
    "listener": (str,),
    "clock": (Clock, NoneType),
    "rng": (random.Random, NoneType),
    "admin": (str, int, NoneType),
    "admin_token": (str, NoneType),
    "schema_registry": (bool, str, int),
    "emulate": (str, NoneType),
    "telemetry": (str, os.PathLike, Callable, NoneType),
    "seed": (str, os.PathLike, Mapping, NoneType),
    "overrides": (Mapping, NoneType),
    "features": (Mapping, NoneType),
}


@dataclass(frozen=True, slots=True)
class Options:
    """Arguments, checked one by one; a start checks whether they go together."""

    data_dir: str | None
    """Absolute path; None for a temporary directory."""
    nodes: int
    profile: str
    overrides: Mapping[str, str] = field(repr=False)
    """Broker options, which may include passwords."""
    features: Mapping[str, int]
    listener: str
    clock: Clock | None
    rng: random.Random | None
    admin: str | None
    admin_token: str | None = field(repr=False)
    schema_registry: str | None
    """`[HOST:]PORT`; None without a schema registry."""
    emulate: str | None
    telemetry: str | Callable[[Any], object] | None
    seed: Seed | None
    tls: Tls | None
    """Client settings for TLS; None without TLS."""
    secured: Mapping[str, str] = field(repr=False)
    """Broker options of TLS for its listeners."""
    token_issuer: TestTokenIssuer | None
    """Token issuer for OAUTHBEARER; None without OAUTHBEARER."""
    users: tuple[User, ...]
    """Users that may log in; empty: no SASL, unless OAUTHBEARER is enabled."""
    acls: tuple[str, ...] | None
    """ACLs that are added at each start; None: only `overrides` decide whether an authorizer is set."""
    quotas: Quotas
    """Quotas that are set at each start, by entity and key."""

    @property
    def security_protocol(self) -> str:
        """Security protocol of the listeners."""
        plain = "PLAINTEXT" if self.tls is None else "SSL"
        return f"SASL_{plain}" if self.users or self.token_issuer is not None else plain

    def static_config(self, files: Files, data_dir: str) -> StaticConfig:
        """Return the static configuration of a start in `data_dir`. ConfigError: an option is refused."""
        host, _, port = self.listener.rpartition(":")
        static = static_config_with_stored_id(
            files,
            profile=self.profile,
            file=Properties(features=dict(self.features)),
            flags={"listeners": f"{self.security_protocol}://{host}:{port}", "log.dirs": data_dir}
            | dict(self.secured)
            | self._options_of_users()
            | ({} if self.token_issuer is None else self.token_issuer.options),
            overrides={CLASS_NAME: STANDARD, **self.overrides} if self.acls is not None else self.overrides,
            nodes=self.nodes,
            emulate=self.emulate,
        )
        return replace(static, telemetry=self.telemetry).with_users(self.users)

    def _options_of_users(self) -> dict[str, str]:
        if not self.users:
            return {}
        from ..config.sasl.users import options_for

        return options_for(self.users)


def takes_arguments(function: Function) -> Function:
    """Show the arguments in `BrokerArguments` in the signature of `function`, for `help()` and `inspect.signature`."""
    shown = signature(function)
    named = [each for each in shown.parameters.values() if each.kind is not Parameter.VAR_KEYWORD]
    named += [
        Parameter(
            name,
            Parameter.KEYWORD_ONLY,
            default=default,
            annotation=BrokerArguments.__annotations__[name].__forward_arg__,
        )
        for name, default in _DEFAULTS.items()
    ]
    function.__signature__ = shown.replace(parameters=named)  # type: ignore[attr-defined]  # the attribute that `inspect` looks at first
    return function


def checked(callee: str, data_dir: str | os.PathLike[str] | None, arguments: BrokerArguments) -> Options:
    """Check the arguments of `callee`, and return its options.

    Raises:
        TypeError: An unknown argument, or one of a wrong type; one line that names it and the expected type.
        ConfigError: An unknown option name, or an invalid directory.
        ControlError: A seed that cannot be read or is invalid.
    """
    _refuse_unknown(callee, arguments)
    given = {**_DEFAULTS, **arguments}
    for name, types in _TYPES.items():
        _expect(name, given[name], *types)
    users, mechanism, listener, features = (
        given["users"] or {},
        given["mechanism"],
        given["listener"],
        given["features"] or {},
    )
    admin, telemetry, seed, acls, quotas = (given[name] for name in ("admin", "telemetry", "seed", "acls", "quotas"))
    if mechanism == OAUTHBEARER and users:
        raise ConfigError(
            "users cannot be combined with OAUTHBEARER, which has tokens instead of passwords; use broker.sasl(NAME)"
        )
    if mechanism not in (None, OAUTHBEARER) and not users:
        hint = _nearest(mechanism.upper(), [OAUTHBEARER])
        raise ConfigError(f'mechanism requires users; use users={{"alice": "secret"}}{hint}')
    if ":" not in listener:
        raise ConfigError(
            f"Invalid value {listener} for listener: must be HOST:PORT, e.g. 127.0.0.1:0; :PORT listens on all interfaces"
        )
    if given["emulate"] is not None:
        release_of(given["emulate"])
    for name, level in features.items():
        _expect(f"features: {name}", level, int)
        if name not in SUPPORTED:
            raise ConfigError(f"features: feature {name} not found{_nearest(name, SUPPORTED)}")
    secured, own_tls = _dev_certificates() if given["tls"] else ({}, None)
    return Options(
        _directory(data_dir),
        given["nodes"],
        given["profile"],
        {_option_name(name): _text(name, value) for name, value in (given["overrides"] or {}).items()},
        dict(features),
        listener,
        given["clock"],
        given["rng"],
        None if admin is None else str(admin),
        given["admin_token"],
        _registry_address(given["schema_registry"]),
        given["emulate"],
        telemetry if telemetry is None or callable(telemetry) else _directory(telemetry),
        None if seed is None else _seed(seed),
        own_tls,
        secured,
        _token_issuer() if mechanism == OAUTHBEARER else None,
        tuple(_user(name, password, mechanism) for name, password in users.items()),
        None if acls is None else _acls(acls),
        {} if quotas is None else _quotas(quotas),
    )


def _quotas(quotas: Quotas) -> Quotas:
    from ..control.quotas import check_all  # imported here, since only quotas need it
    from ..runtime.errors import ControlError

    for entity, values in quotas.items():
        _expect("quotas: an entity", entity, str)
        _expect(f"quotas: {entity}", values, Mapping)
    try:
        check_all(quotas)
    except ControlError as error:
        raise ConfigError(f"quotas: {error}") from None
    return {entity: dict(values) for entity, values in quotas.items()}


def _registry_address(given: bool | str | int) -> str | None:
    if isinstance(given, bool):
        return "0" if given else None
    return str(given)


def _acls(lines: Iterable[str]) -> tuple[str, ...]:
    from ..security.acls.acl import parse_new  # imported here, since only ACLs need it

    if isinstance(lines, str):
        _refuse("acls", lines, (list,))
    found = tuple(lines)
    for number, line in enumerate(found):
        _expect(f"acls: {number}", line, str)
        try:
            list(parse_new(line))
        except ValueError as error:
            raise ConfigError(f"acls: {error}") from None
    return found


def _user(name: object, password: object, mechanism: str | None) -> User:
    _expect("users: a name", name, str)
    if not isinstance(password, str):  # its value is not shown
        raise TypeError(f"users: the password of {name} must be a str, found {type(password).__name__}")
    from ..config.sasl.users import user_of

    return user_of("users", str(name), password, mechanism)


def _token_issuer() -> TestTokenIssuer:
    from .sasl import TestTokenIssuer  # imported here, since only OAUTHBEARER needs it

    return TestTokenIssuer()


def _dev_certificates() -> tuple[Mapping[str, str], Tls]:
    from .tls import dev_certificates  # imported here, since only TLS needs it

    return dev_certificates(Clock().now_ms())


def _seed(source: SeedSource) -> Seed:
    from ..control.seed.seed import seed_from  # imported here, since only a seed needs it

    return seed_from(source)


def _refuse_unknown(callee: str, given: Iterable[str]) -> None:
    """Raise TypeError for the first unknown keyword, with the nearest known one, as later Pythons do themselves."""
    for name in given:
        if name in _DEFAULTS:
            continue
        option = name.replace("_", ".")
        if find_option(option) is not None or option in TOPIC_OPTIONS:
            hint = f"; for broker options use overrides={{{_broker_name(option)!r}: ...}}"
        else:
            hint = _nearest(name, ["data_dir", *_DEFAULTS])
        raise TypeError(f"{callee}() has no argument {name!r}{hint}")


def _directory(given: str | os.PathLike[str] | None) -> str | None:
    if given is None:
        return None
    if isinstance(given, os.PathLike):
        path = os.fspath(given)
        _expect("data_dir", path, str)
        if "," in path:
            raise ConfigError(f"Invalid value {path} for data_dir: a comma separates directories in log.dirs")
        return _absolute(path)
    _expect("data_dir", given, str)
    refuse_comma("data_dir", os.path.expanduser(given))
    return ",".join(_absolute(each.strip()) for each in given.split(","))


def _absolute(path: str) -> str:
    """Return the absolute path, with `~` expanded as in a shell."""
    found = os.path.expanduser(path)
    if found.startswith("~"):
        raise ConfigError(f"Invalid value {path} for data_dir: home directory not found")
    if not found or "\0" in found:
        raise ConfigError(f"Invalid value {path!r} for data_dir: must name a directory, or be None for a temporary one")
    return os.path.abspath(found)


def _option_name(name: object) -> str:
    _expect("overrides: a name", name, str)
    assert isinstance(name, str)
    if find_option(name) is None and name not in HANDED_ON:
        meant = name.replace("_", ".")
        if find_option(meant) is not None or meant in TOPIC_OPTIONS:
            hint = f"; did you mean {_broker_name(meant)}?"
        else:
            hint = _nearest(name, BROKER_OPTIONS)
        raise ConfigError(f"overrides: broker option {name} not found{hint}")
    return name


def _broker_name(option: str) -> str:
    """Return the broker option that sets the topic default, if `option` is a topic option."""
    if find_option(option) is None and TOPIC_OPTIONS[option].synonyms:
        return TOPIC_OPTIONS[option].synonyms[0].name
    return option


def _nearest(name: str, known: Iterable[str]) -> str:
    from difflib import get_close_matches  # imported here to keep it out of the start

    found = get_close_matches(name, list(known), n=1)
    return f"; did you mean {found[0]}?" if found else ""


def _text(name: str, value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    _expect(f"overrides: {name}", value, str, int, float)
    return str(value)


def _expect(name: str, value: object, *types: type) -> None:
    if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
        _refuse(name, value, types)


def _refuse(name: str, value: object, types: tuple[type, ...]) -> NoReturn:
    expected = " or ".join("None" if each is type(None) else each.__name__ for each in types)
    raise TypeError(f"{name}: expected {expected}, found {reprlib.repr(value)}")
