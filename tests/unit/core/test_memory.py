"""Which CPUs of a node go together."""

import msgspec
import pytest

from lattice.core.model.nodes.memory import (
    MemoryDomain,
    MemoryDomainType,
    MemoryInterconnect,
    MemoryTopology,
    choose_cpus,
    locality_fitness,
)

TWO_SOCKETS = MemoryTopology(
    domains=(
        MemoryDomain(id=0, numa_node=0, attached_cpus=(0, 1, 2, 3), attached_gpus=(0, 1)),
        MemoryDomain(id=1, numa_node=1, attached_cpus=(4, 5, 6, 7), attached_gpus=(2, 3)),
    )
)
ALL = frozenset(range(8))


def test_one_domain_is_enough_where_it_fits_and_the_fullest_that_fits_is_taken() -> None:
    assert choose_cpus(TWO_SOCKETS, ALL, 4) == (0, 1, 2, 3)
    assert choose_cpus(TWO_SOCKETS, ALL - {4}, 2) == (5, 6), "the other domain stays whole"
    assert choose_cpus(TWO_SOCKETS, ALL - {4}, 4) == (0, 1, 2, 3)


def test_cpus_near_the_gpus_come_first() -> None:
    assert choose_cpus(TWO_SOCKETS, ALL, 3, (3,)) == (4, 5, 6)
    assert choose_cpus(TWO_SOCKETS, ALL, 6, (3,)) == (0, 1, 4, 5, 6, 7)
    assert choose_cpus(TWO_SOCKETS, ALL - {5, 6}, 3, (3,)) == (0, 1, 2), "one domain rules"


def test_well_linked_domains_are_used_together() -> None:
    domains = tuple(MemoryDomain(id=place, attached_cpus=(2 * place, 2 * place + 1)) for place in range(4))
    links = (
        MemoryInterconnect(domain_a=0, domain_b=1, bandwidth_gbps=20.0),
        MemoryInterconnect(domain_a=3, domain_b=1, bandwidth_gbps=40.0),
    )
    assert choose_cpus(MemoryTopology(domains=domains, interconnects=links), ALL, 4) == (2, 3, 6, 7)


def test_domains_without_cpus_of_their_own_choose_nothing() -> None:
    memory = MemoryTopology(
        domains=(
            MemoryDomain(id=0, attached_cpus=(0, 1)),
            MemoryDomain(id=1, attached_cpus=(2, 3)),
            MemoryDomain(id=2, domain_type=MemoryDomainType.HBM, attached_cpus=(2, 3), attached_gpus=(0,)),
            MemoryDomain(id=3, domain_type=MemoryDomainType.CXL_ATTACHED),
        )
    )
    assert choose_cpus(memory, range(4), 2, (0,)) == (2, 3)
    assert choose_cpus(memory, range(6), 6) == (0, 1, 2, 3, 4, 5), "CPUs that no domain lists are there too"


def test_many_domains_are_filled_from_the_largest() -> None:
    domains = tuple(MemoryDomain(id=place, attached_cpus=(2 * place, 2 * place + 1)) for place in range(32))
    chosen = choose_cpus(MemoryTopology(domains=domains), set(range(64)) - {0}, 5)
    assert chosen == (2, 3, 4, 5, 6)


def test_more_than_are_free_cannot_be_chosen() -> None:
    with pytest.raises(ValueError, match="3 CPUs wanted, 2 free"):
        choose_cpus(TWO_SOCKETS, {0, 1}, 3)
    assert choose_cpus(TWO_SOCKETS, (), 0) == ()


def test_locality_is_what_lies_together() -> None:
    assert locality_fitness(TWO_SOCKETS, (0, 1), (0, 1)) == 1.0
    assert locality_fitness(TWO_SOCKETS, (0, 1), (2, 3)) == 0.5
    assert locality_fitness(TWO_SOCKETS, (), ()) == 1.0


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"domains": [{"id": 1}, {"id": 1}]}', "the same id"),
        ('{"domains": [{"id": 1, "attached_cpus": [-1]}]}', "negative"),
        ('{"domains": [{"id": 1}], "interconnects": [{"domain_a": 1, "domain_b": 2}]}', "1 and 2"),
        ('{"domains": [{"id": 1, "attached_cpus": [0]}]}', ""),
    ],
)
def test_what_contradicts_itself_is_named(text: str, problem: str) -> None:
    found = msgspec.json.decode(text, type=MemoryTopology).problem()
    assert (problem in found) if problem else not found
