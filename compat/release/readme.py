"""The README as the package index shows it: there a link relative to the repository leads nowhere."""

import re

FENCE = re.compile(r"(^```.*?^```\s*?$)", re.MULTILINE | re.DOTALL)
LINK = re.compile(
    r"(?P<image>!?)\[(?P<text>(?:[^\[\]]|\[[^\]]*\]\([^)]*\))*)\]\((?!https?://|mailto:)(?P<path>[^)\s]+)\)"
)


def long_description(readme: str, source_url: str | None, version: str) -> str:
    """`readme` with each relative link made absolute, at the tag of the version.

    While the project has no public address (`source_url` is None) a link is its text, and an image is left out. Code stays as it is.
    """

    def at_home(link: re.Match[str]) -> str:
        text, path = LINK.sub(at_home, link["text"]), link["path"]
        if source_url is None:
            return "" if link["image"] else text
        if path.startswith("#"):
            return f"[{text}]({source_url}{path})"
        kind = "raw" if link["image"] else "blob"
        return f"{link['image']}[{text}]({source_url}/{kind}/v{version}/{path})"

    parts = FENCE.split(readme)
    return "".join(part if part.startswith("```") else LINK.sub(at_home, part) for part in parts)
