"""Regular expressions that clients send: RE2's syntax, as with Apache Kafka, and bounded in what they cost.

RE2 needs linear time, but not a short one: reading 30 KB of `\\pL` takes a second, a program of half a million
instructions as long to make, and matching costs an instruction times a byte where its states do not fit into memory. The
library keeps the interpreter's lock meanwhile, so no thread helps. An expression within the limits is compiled in less than
20 ms, and looks at a topic's name for 3 ms at most.
"""

from __future__ import annotations

from typing import Any

from ...protocol.errors import ErrorCode, KafkaError

MAX_CHARS = 4_096
MAX_CLASS_NAMES = 50
"""How often an expression may name a class of Unicode (`\\pL`, `\\P{Greek}`), which takes 0.1 ms each time."""
MAX_MEMORY_BYTES = 256 << 10
"""For the program, which has about 10 000 instructions then, and for what is known of its states."""
MAX_STEPS = 4_000_000
"""Instructions times bytes that one match may need."""


class Expression:
    """
    Raises:
        KafkaError: INVALID_REGULAR_EXPRESSION, with what RE2 says, or the limit that is passed.
    """

    def __init__(self, pattern: str) -> None:
        # Imported here, as few brokers ever see an expression.
        import re2

        if len(pattern) > MAX_CHARS:
            raise _invalid(f"too long ({len(pattern)} characters, limit {MAX_CHARS})")
        class_names = pattern.count("\\p") + pattern.count("\\P")
        if class_names > MAX_CLASS_NAMES:
            raise _invalid(f"too many Unicode classes ({class_names}, limit {MAX_CLASS_NAMES})")
        options = re2.Options()
        options.log_errors = False
        options.never_capture = True
        options.max_mem = MAX_MEMORY_BYTES
        try:
            compiled: Any = re2.compile(pattern, options)
        except re2.error as error:
            raise _invalid(error.args[0].decode(errors="replace").partition(": ")[0]) from error
        except UnicodeEncodeError as error:
            raise _invalid("not valid Unicode") from error
        self._fullmatch = compiled.fullmatch
        self._max_bytes = MAX_STEPS // max(1, compiled.programsize)

    def matches(self, text: str) -> bool:
        """Whether it matches the whole text.

        Raises:
            KafkaError: INVALID_REGULAR_EXPRESSION. It is too large for a text of this length.
        """
        if 4 * len(text) > self._max_bytes and len(text.encode("utf-8", "surrogatepass")) > self._max_bytes:
            raise _invalid(f"too complex for a text of {len(text)} characters")
        return self._fullmatch(text) is not None


def _invalid(reason: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REGULAR_EXPRESSION, reason)
