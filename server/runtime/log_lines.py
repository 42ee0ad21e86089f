"""Lines of a log: names and words of clients stand in many, and must neither end one nor move the cursor of a terminal."""

from __future__ import annotations

import logging


def printable(text: str) -> str:
    """The same with line ends, and whatever else is no character to be read, as Python writes them in ASCII."""
    return text if text.isprintable() else "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


class LogLines(logging.Formatter):
    """Each message is one line, whatever it is about; tracebacks keep theirs."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        record.message = printable(record.message)
        return super().formatMessage(record)
