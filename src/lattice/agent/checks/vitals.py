"""The few figures of a node's health that go with every heartbeat."""

from msgspec import Struct

from lattice.agent.checks.builtins import Surroundings, counted_gpus, memory_error_count, read_number

MAX_C = 200.0  # beyond that a sensor is broken, not a node hot


class Vitals(Struct, frozen=True, kw_only=True):
    """`temperature_c` is the highest that any sensor shows, 0 where there is none."""

    gpus: int = 0
    temperature_c: float = 0.0
    memory_errors: int = 0


def read_vitals(here: Surroundings) -> Vitals:
    sensors = (
        *here.root.glob("sys/class/hwmon/hwmon*/temp*_input"),
        *here.root.glob("sys/class/thermal/thermal_zone*/temp"),
    )
    shown = [here.gpu_temperature_c, *(read_number(sensor) / 1000 for sensor in sensors)]
    return Vitals(
        gpus=counted_gpus(here.root, here.inventory()) or 0,
        temperature_c=max((each for each in shown if each < MAX_C), default=0.0),
        memory_errors=sum(memory_error_count(here.root)),
    )
