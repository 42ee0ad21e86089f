"""Errors of the registry, with the codes of Confluent's Schema Registry."""

from __future__ import annotations

from typing import Any


class RegistryError(Exception):
    """A refused request. Nothing was changed.

    Args:
        status: The HTTP status.
        code: The error code in the body.
        sentence: One line for the client.
    """

    def __init__(self, status: int, code: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status
        self.code = code

    def __reduce__(self) -> tuple[Any, ...]:
        return RegistryError, (self.status, self.code, *self.args)


def subject_not_found(subject: str) -> RegistryError:
    return RegistryError(404, 40401, f"Subject '{subject}' not found.")


def version_not_found(version: int) -> RegistryError:
    return RegistryError(404, 40402, f"Version {version} not found.")


def schema_not_found(schema_id: object = None) -> RegistryError:
    return RegistryError(404, 40403, "Schema not found" if schema_id is None else f"Schema {schema_id} not found")


def subject_soft_deleted(subject: str) -> RegistryError:
    return RegistryError(404, 40404, f"Subject '{subject}' was soft deleted. Set permanent=true to delete permanently")


def subject_not_soft_deleted(subject: str) -> RegistryError:
    return RegistryError(404, 40405, f"Subject '{subject}' was not deleted first before being permanently deleted")


def version_soft_deleted(subject: str, version: int) -> RegistryError:
    return RegistryError(
        404, 40406, f"Subject '{subject}' Version {version} was soft deleted. Set permanent=true to delete permanently"
    )


def version_not_soft_deleted(subject: str, version: int) -> RegistryError:
    return RegistryError(
        404, 40407, f"Subject '{subject}' Version {version} was not deleted first before being permanently deleted"
    )


def no_config(subject: str) -> RegistryError:
    return RegistryError(404, 40408, f"Subject '{subject}' does not have subject-level compatibility configured")


def no_mode(subject: str) -> RegistryError:
    return RegistryError(404, 40409, f"Subject '{subject}' does not have subject-level mode configured")


def incompatible(reasons: list[str]) -> RegistryError:
    return RegistryError(
        409, 409, f"Schema being registered is incompatible with an earlier schema; details: [{', '.join(reasons)}]"
    )


def invalid_schema(reason: str) -> RegistryError:
    return RegistryError(422, 42201, f"Invalid schema: {reason}")


def invalid_version(version: str) -> RegistryError:
    return RegistryError(
        422,
        42202,
        f"The specified version '{version[:100]}' is not a valid version id. Allowed values are between [1, 2^31-1] and"
        ' the string "latest"',
    )


def invalid_level(levels: tuple[str, ...]) -> RegistryError:
    return RegistryError(422, 42203, f"Invalid compatibility level. Valid values are: {', '.join(levels)}")


def invalid_mode(modes: tuple[str, ...]) -> RegistryError:
    return RegistryError(422, 42204, f"Invalid mode. Valid values are: {', '.join(modes)}")


def not_permitted(reason: str) -> RegistryError:
    return RegistryError(422, 42205, reason)


def referenced(subject: str, version: int) -> RegistryError:
    return RegistryError(422, 42206, f"One or more references exist to the schema {subject} version {version}")


def invalid_subject(subject: str) -> RegistryError:
    return RegistryError(422, 42208, f"The specified subject '{subject[:100]}' is not a valid subject")


def too_large(reason: str) -> RegistryError:
    return RegistryError(422, 42209, reason)


def invalid_rules(reason: str) -> RegistryError:
    return RegistryError(422, 42210, f"Invalid ruleSet: {reason}")


def store_failed(reason: str) -> RegistryError:
    return RegistryError(500, 50001, reason)


def shown(value: object) -> str:
    """Return a JSON value for a message, in at most a hundred characters. One with members is not written out: it may have
    millions."""
    if isinstance(value, list | dict):
        return type(value).__name__
    return repr(value[:100] if isinstance(value, str) else value)[:100]


def malformed(reason: str) -> RegistryError:
    """Return the error for a request that is not of the expected form."""
    return RegistryError(422, 422, reason)
