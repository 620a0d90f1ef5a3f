"""Takes what may be secret out of texts that leave the cluster: the last defence, after nothing secret was written in the first place."""

import re

HIDDEN = "[hidden]"
_PATTERNS = (
    re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL),
    re.compile(r"\beyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]*)?"),  # tokens
    re.compile(r"(?i)\b(?:bearer|basic)\s+[A-Za-z0-9+/_=.~-]{8,}"),
    re.compile(r"(?<=://)[^/\s:@\"']+:[^/\s@\"']+(?=@)"),  # user:password@ of an address
    re.compile(
        r"""(?ix)
        (?<= [a-z_-] ) ?  # part of a longer name
        \b [\w.-]* (?:password|passwd|passphrase|secret|credential|api[_-]?key|private[_-]?key|routing[_-]?key|token) [\w-]*
        \\? ["']? \s* [:=] \s* \\? ["']?
        (?! (?:file|env|vault):// ) (?! \[hidden\] ) (?! [\[{] ) (?! (?:null|none|true|false|""|'')\b )
        [^\s"',;}\]\\]+
        """
    ),
)


def scrub(text: str) -> str:
    """The text without tokens, keys, passwords, and values of names that sound secret; references to secrets stay."""
    for pattern in _PATTERNS:
        text = pattern.sub(_hide, text)
    return text


def _hide(found: "re.Match[str]") -> str:
    """Keeps the name of a value, so that one sees what is missing."""
    whole = found.group(0)
    name = re.match(r"[\w.-]+\\?[\"']?\s*[:=]\s*\\?[\"']?", whole)
    return f"{name.group(0)}{HIDDEN}" if name is not None else HIDDEN
