"""Reads weights to try: a YAML file of profiles, each with the factors that count for it.

Errors of this boundary::

    WeightsError         unreadable file, broken YAML, unknown factor, weights that no vCluster would be given
"""

from pathlib import Path

import yaml

from lattice.core.scheduler.score.profiles import Profile, profile_from_weights


class WeightsError(Exception):
    """Weights that cannot be used; the text says where and why."""


def read_weights(path: Path) -> dict[str, Profile]:
    """The profiles of the file by name, at least one."""
    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise WeightsError(f"{path}: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise WeightsError(f"{path}: {' '.join(str(error).split())}") from None
    if not isinstance(found, dict) or not found:
        raise WeightsError(f"{path}: must hold a name for each profile and under it its weights, as in priority: 0.2")
    return {str(name): _profile(path, str(name), weights) for name, weights in found.items()}


def _profile(path: Path, name: str, weights: object) -> Profile:
    if not isinstance(weights, dict):
        raise WeightsError(f"{path}: {name}: must hold weights by factor, as in priority: 0.2")
    try:
        return profile_from_weights(name, {str(factor): weight for factor, weight in weights.items()})
    except ValueError as error:
        raise WeightsError(f"{path}: {name}: {error}") from None
