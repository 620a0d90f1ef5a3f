"""Command lines and `#SBATCH` lines, read as Slurm's programs read them."""

import pytest

from lattice.slurm.faults import Fault, bad_value
from lattice.slurm.submit.directives import check_script, directive_options, read_directives, split_words
from lattice.slurm.submit.getopt import Grammar
from lattice.slurm.submit.job import READ
from lattice.slurm.submit.options import OPTIONS, Fate, options_of

SBATCH = Grammar("sbatch", options_of("sbatch"))
SRUN = Grammar("srun", options_of("srun"))


def given(grammar: Grammar, *words: str) -> list[tuple[str, str]]:
    return [(option.name, value) for option, value in grammar.read(words).given]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--time=5", "--nodes", "2"), [("time", "5"), ("nodes", "2")]),
        (("-N2", "-n", "4"), [("nodes", "2"), ("ntasks", "4")]),
        (("-HQt5",), [("hold", ""), ("quiet", ""), ("time", "5")]),
        (("--parti=x", "--out=y"), [("partition", "x"), ("output", "y")]),
        (("--tasks=2",), [("ntasks-per-node", "2")]),
        (("--exclusive", "--exclusive=user"), [("exclusive", ""), ("exclusive", "user")]),
    ],
)
def test_options_are_read_as_getopt_does(words: tuple[str, ...], expected: list[tuple[str, str]]) -> None:
    assert given(SBATCH, *words) == expected


def test_words_begin_where_the_options_end() -> None:
    line = SBATCH.read(("-N2", "script.sh", "--time=5"))
    assert line.words == ("script.sh", "--time=5")
    assert SBATCH.read(("-N2", "--", "-x")).words == ("-x",)
    assert SBATCH.read(("-",)).words == ("-",)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--bogus=1",), "sbatch: unrecognized option '--bogus=1'"),
        (("-Z",), "sbatch: invalid option -- 'Z'"),
        (("--time",), "sbatch: option '--time' requires an argument"),
        (("-t",), "sbatch: option requires an argument -- 't'"),
        (("--hold=1",), "sbatch: option '--hold' doesn't allow an argument"),
        (
            ("--nod=1",),
            "sbatch: option '--nod=1' is ambiguous; possibilities: '--nodefile' '--nodelist' '--nodes'",
        ),
    ],
)
def test_wrong_lines_are_refused_in_the_known_words(words: tuple[str, ...], text: str) -> None:
    with pytest.raises(Fault) as caught:
        SBATCH.read(words)
    assert caught.value.lines == (text, 'Try "sbatch --help" for more information')
    assert caught.value.code == 255


def test_letters_mean_what_they_mean_in_each_program() -> None:
    assert given(SRUN, "-l", "-W", "5", "-K0") == [("label", ""), ("wait", "5"), ("kill-on-bad-exit", "0")]
    assert given(SBATCH, "-W") == [("wait", "")]


def test_every_option_says_what_becomes_of_it() -> None:
    for program in ("sbatch", "salloc", "srun"):
        names = [name for option in options_of(program) for name in (option.name, *option.also)]
        letters = [option.short for option in options_of(program) if option.short]
        assert len(set(names)) == len(names)
        assert len(set(letters)) == len(letters)
    assert all(option.note for option in OPTIONS if option.fate is not Fate.SILENT)


def test_directives_stand_before_the_first_command() -> None:
    script = (
        "#!/bin/sh\n#SBATCH -N2 --time=5 # five minutes\n##SBATCH -n9\n #SBATCH -n8\n#SBATCHx\n\necho\n#SBATCH -n7\n"
    )
    assert [(d.line, d.words) for d in read_directives(script)] == [(2, ("-N2", "--time=5"))]
    assert [(option.name, value) for option, value in directive_options(script, SBATCH)] == [
        ("nodes", "2"),
        ("time", "5"),
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('--job-name="a b" -n1', ["--job-name=a b", "-n1"]),
        ("--comment='x \"y\"'", ['--comment=x "y"']),
        ("-J a\\ b", ["-J", "a b"]),
        ('--comment="" -n1', ["--comment=", "-n1"]),
        ("-J x#y # z", ["-J", "x#y"]),
        ("", []),
    ],
)
def test_words_of_a_directive_are_quoted_as_in_a_shell(text: str, words: list[str]) -> None:
    assert split_words(text) == words


def test_stray_words_and_heterogeneous_jobs_are_refused() -> None:
    with pytest.raises(Fault, match="Invalid directive found in batch script: stray") as caught:
        directive_options("#!/bin/sh\n#SBATCH -N1 stray\n", SBATCH)
    assert caught.value.code == 255
    with pytest.raises(Fault, match="heterogeneous"):
        directive_options("#!/bin/sh\n#SBATCH hetjob\n", SBATCH)
    with pytest.raises(Fault, match="unrecognized option '--bogus'"):
        directive_options("#!/bin/sh\n#SBATCH --bogus\n", SBATCH)


@pytest.mark.parametrize(
    ("script", "text"),
    [
        ("", "Batch script is empty!"),
        ("echo\n", "This does not look like a batch script.  The first"),
        ("#!/bin/sh\r\necho\r\n", "Batch script contains DOS line breaks"),
    ],
)
def test_what_is_no_batch_script_is_refused(script: str, text: str) -> None:
    with pytest.raises(Fault, match=text) as caught:
        check_script(script)
    assert caught.value.code == 1


def test_a_good_script_passes() -> None:
    check_script("#!/bin/sh\necho\n")


def test_a_bad_value_names_its_option() -> None:
    fault = bad_value("sbatch", "time")
    assert (str(fault), fault.code) == ("sbatch: error: Invalid --time specification", 255)


def test_every_option_that_is_said_to_have_an_effect_is_read() -> None:
    elsewhere = {"help", "usage", "version", "verbose"}
    mapped = {option.name for option in options_of("sbatch") if option.fate in (Fate.MAPPED, Fate.SHOWN)}
    assert mapped - elsewhere - READ == set()
