"""Long lists on a terminal, through the pager that the user prefers."""

import os
import shlex
import shutil
import subprocess

from lattice.cli.context import Context


def page(context: Context, text: str) -> None:
    """Show the text with PAGER, or less; without either, or with an empty PAGER, as it is."""
    environment = context.process.environment
    words = shlex.split(environment.get("PAGER", "less"))
    if not words or words == ["cat"] or shutil.which(words[0]) is None:
        context.streams.write(text)
        return
    context.streams.stdout.flush()
    # -F ends for what fits, -R keeps colours, -X leaves the text on the screen.
    started = subprocess.Popen(
        words,
        stdin=subprocess.PIPE,
        stdout=context.streams.stdout.fileno(),
        env={"LESS": "FRX", **os.environ, **environment},
    )
    try:
        started.communicate(text.encode("utf-8", "surrogateescape"))
    except KeyboardInterrupt:
        started.wait()  # the pager got it as well and decides
