"""Probes of a service on the command line: tcp:8080, http:web/healthz,period=5 or exec:./check --fast."""

from msgspec.structs import replace

from lattice.cli.errors import UsageError
from lattice_sdk.models.runs import Probe, ProbeRequest

_NUMBERS = {
    "period": "period_secs",
    "delay": "initial_delay_secs",
    "timeout": "timeout_secs",
    "failures": "failure_threshold",
    "successes": "success_threshold",
}
_HINT = "for example tcp:8080, http:web/healthz,period=5 or 'exec:./check --fast,timeout=2'"


def parse_probe(text: str | None, flag: str) -> ProbeRequest | None:
    """The probe behind the text; UsageError when it is none. Options come last, each after a comma."""
    if text is None:
        return None
    how, colon, rest = text.partition(":")
    if not colon or how not in ("tcp", "http", "exec"):
        raise UsageError(f'{flag} "{text}" is no probe', hint=_HINT)
    numbers: dict[str, int] = {}
    while "," in rest:
        head, _, last = rest.rpartition(",")
        name, equals, value = last.partition("=")
        if not equals or name not in _NUMBERS or _NUMBERS[name] in numbers:
            break  # the rest is the path, which may have commas too
        if not (value.isascii() and value.isdigit()):
            raise UsageError(f'{flag}: {name}="{value}" is no whole number', hint=_HINT)
        numbers[_NUMBERS[name]] = int(value)
        rest = head
    if how == "exec":
        return replace(ProbeRequest(probe_type=how, command=_words(rest, flag)), **numbers)
    port, slash, path = rest.partition("/")
    if port.isascii() and port.isdigit():
        return replace(ProbeRequest(probe_type=how, port=int(port), path=slash + path), **numbers)
    if not port[:1].isalpha():
        raise UsageError(f'{flag}: "{port}" is no port', hint=_HINT)
    return replace(ProbeRequest(probe_type=how, port_name=port, path=slash + path), **numbers)


def _words(text: str, flag: str) -> tuple[str, ...]:
    """The words of a command, split as a shell would; no shell runs it."""
    import shlex

    try:
        words = tuple(shlex.split(text))
    except ValueError:
        raise UsageError(f'{flag}: "{text}" has a quotation mark without its partner', hint=_HINT) from None
    if not words or not words[0]:
        raise UsageError(f"{flag}: an exec probe needs a command", hint=_HINT)
    return words


def probe_text(probe: Probe) -> str:
    """As the flag takes it."""
    import shlex

    what = shlex.join(probe.command) if probe.command else f"{probe.port_name or probe.port}{probe.path}"
    return (
        f"{probe.type}:{what},period={probe.period_s:g},delay={probe.initial_delay_s:g},timeout={probe.timeout_s:g},"
        f"failures={probe.failure_threshold},successes={probe.success_threshold}"
    )
