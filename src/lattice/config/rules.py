"""The rules of `submission.rules` as the core takes them. ConfigError when one makes no sense."""

from lattice.config.load import ConfigError, parse_duration
from lattice.config.sections.work import IntentSection, RuleSection, SubmissionSection
from lattice.core.model.work.allocations import Lifecycle
from lattice.core.model.work.intent import IntentRule

Bounds = tuple[int | None, int | None]


def intent_rules(section: SubmissionSection) -> tuple[IntentRule, ...]:
    return tuple(_rule(rule, place) for place, rule in enumerate(section.rules, start=1))


def _rule(rule: RuleSection, place: int) -> IntentRule:
    when, where = rule.when, f"submission.rules[{place}]"
    return IntentRule(
        vcluster=rule.vcluster,
        name=f'rule "{rule.name}"' if rule.name else f"rule {place}",
        tenants=_words(when.tenant),
        users=_words(when.user),
        projects=_words(when.project),
        tags=tuple(sorted(when.tags.items())),
        lifecycle=Lifecycle(when.lifecycle) if when.lifecycle else None,
        nodes=_rising((when.min_nodes, when.max_nodes), f"{where}.when: nodes"),
        gpus=_rising((when.min_gpus, when.max_gpus), f"{where}.when: gpus"),
        walltime_s=_rising(_walltimes(when, where), f"{where}.when: walltime"),
    )


def _words(value: str | list[str]) -> tuple[str, ...]:
    return ((value,) if value else ()) if isinstance(value, str) else tuple(value)


def _walltimes(when: IntentSection, where: str) -> Bounds:
    return (
        _seconds(when.min_walltime, f"{where}.when.min_walltime"),
        _seconds(when.max_walltime, f"{where}.when.max_walltime"),
    )


def _seconds(value: str | float | None, where: str) -> int | None:
    if value is None:
        return None
    seconds = parse_duration(str(value))
    if seconds is None:
        raise ConfigError(f'{where}: cannot read "{value}" as a duration; write 10s, 5m, 1h30m or plain seconds')
    return int(seconds)


def _rising(bounds: Bounds, where: str) -> Bounds:
    low, high = bounds
    if low is not None and high is not None and low > high:
        raise ConfigError(f"{where}: at least {low}, but at most {high}")
    return bounds
