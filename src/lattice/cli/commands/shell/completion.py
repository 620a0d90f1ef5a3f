"""`lattice completion bash|zsh|fish`: a script that asks `lattice complete-word` for every word."""

import argparse
from dataclasses import dataclass

from lattice.cli.command import Command
from lattice.cli.context import Context
from lattice.cli.errors import OK

BASH = r"""# bash completion for lattice
_lattice() {
    local cur words cword
    if declare -F _get_comp_words_by_ref >/dev/null; then
        _get_comp_words_by_ref -n =: cur words cword
    else
        cur="${COMP_WORDS[COMP_CWORD]}" words=("${COMP_WORDS[@]}") cword=$COMP_CWORD
    fi
    local IFS=$'\n'
    COMPREPLY=($("${words[0]}" complete-word -- "${words[@]:1:cword-1}" "$cur" 2>/dev/null))
    if [[ $cur == --*=* && ${COMP_WORDBREAKS} == *=* ]]; then
        COMPREPLY=("${COMPREPLY[@]#*=}")
    fi
}
complete -o default -F _lattice lattice
"""

ZSH = r"""#compdef lattice
# zsh completion for lattice
_lattice() {
    local -a found
    found=("${(@f)$("${words[1]}" complete-word -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    found=("${(@)found:#}")
    if (( ${#found} )); then
        compadd -a found
    else
        _files
    fi
}
if [ "$funcstack[1]" = "_lattice" ]; then
    _lattice "$@"
else
    compdef _lattice lattice
fi
"""

FISH = r"""# fish completion for lattice
function __lattice_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    $words[1] complete-word -- $words[2..-1] "$current" 2>/dev/null
end
complete -c lattice -a '(__lattice_complete)'
"""

SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}


@dataclass(frozen=True, kw_only=True)
class Options:
    shell: str


def fill(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=tuple(SCRIPTS), metavar="SHELL", help="bash, zsh or fish")


def run(options: Options, context: Context) -> int:
    context.streams.write(SCRIPTS[options.shell])
    return OK


COMMAND = Command(
    options=Options,
    fill=fill,
    run=run,
    examples=(
        "lattice completion bash > /etc/bash_completion.d/lattice",
        "lattice completion zsh > ~/.zfunc/_lattice",
        "lattice completion fish > ~/.config/fish/completions/lattice.fish",
    ),
)
