"""Layer 5. `wakeful completion`: what makes a shell complete commands, and names from the store?

The shell asks this very program at every TAB. It reads the store for at most a second, wakes nothing, makes no file,
and answers with nothing when it can't.
"""

import os
import shlex
from typing import Any

import click
from click.shell_completion import BashComplete, CompletionItem, FishComplete, ZshComplete, split_arg_string

from wakeful.cli import options
from wakeful.cli.known_names import COMPLETE

# Bash splits words at colons as well, which keys have: the words are taken from the line itself, and of what is
# offered bash replaces only the part behind the last colon.
_BASH = """\
%(complete_func)s() {
    local IFS=$'\\n' kind value
    COMPREPLY=()
    while IFS=',' read -r kind value; do
        case "$kind" in
            dir) compopt -o dirnames ;;
            file) compopt -o default ;;
            plain) COMPREPLY+=("$value") ;;
        esac
    done < <(COMP_LINE="${COMP_LINE:0:$COMP_POINT}" COMP_WORDBREAKS="$COMP_WORDBREAKS" %(complete_var)s=bash_complete "$1" 2>/dev/null)
}
complete -o nosort -F %(complete_func)s %(prog_name)s
"""


class _Bash(BashComplete):
    """Bash, with colons and blanks in names."""

    source_template = _BASH

    @staticmethod
    def _check_version() -> None:
        """The script says nothing that bash 4 does not know, so there is nothing to ask it."""

    def get_completion_args(self) -> tuple[list[str], str]:
        line = os.environ.get("COMP_LINE", "")
        words = split_arg_string(line)[1:]
        is_new = not line or line[-1].isspace()
        return (words, "") if is_new or not words else (words[:-1], words[-1])

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem]:
        items = super().get_completions(args, incomplete)
        breaks = os.environ.get("COMP_WORDBREAKS", "")
        cut = incomplete.rfind(":") + 1 if ":" in breaks else 0
        for item in items:
            if item.type == "plain":
                item.value = shlex.quote(item.value[cut:])
        return items


class _Fish(FishComplete):
    """Fish, with commas in names and descriptions: only the first one ends the kind."""

    source_template = FishComplete.source_template.replace('string split ","', 'string split --max 1 ","')


_SHELLS: dict[str, type[Any]] = {"bash": _Bash, "zsh": ZshComplete, "fish": _Fish}


@options.command("completion")
@click.argument("shell", type=click.Choice(list(_SHELLS)), required=False)
@click.pass_context
def completion(ctx: click.Context, /, shell: str | None, as_json: bool) -> None:
    """Print the script that makes SHELL complete commands, options, classes, keys, schedules and nodes.

    \b
    bash: echo 'eval "$(wakeful completion bash)"' >> ~/.bashrc
    zsh:  echo 'eval "$(wakeful completion zsh)"' >> ~/.zshrc
    fish: wakeful completion fish > ~/.config/fish/completions/wakeful.fish
    """
    from wakeful.cli.exit_codes import USAGE, CommandError
    from wakeful.cli.output import put_json

    name = shell or os.path.basename(os.environ.get("SHELL", ""))
    maker = maker_of(name)
    if maker is None:
        raise CommandError("which shell? wakeful completion bash, zsh or fish", code="usage", exit_code=USAGE)
    script = maker(ctx.find_root().command, {}, "wakeful", COMPLETE).source()
    if as_json:
        put_json({"shell": name, "script": script})
    else:
        click.echo(script)


def maker_of(shell: str) -> type[Any] | None:
    """Who speaks with that shell."""
    return _SHELLS.get(shell)


def answer(root: click.Command, instruction: str) -> int:
    """What a shell asks of that command with its variable, like `bash_complete`; an exit code."""
    shell, _, what = instruction.partition("_")
    maker = maker_of(shell)
    if maker is None or what != "complete":
        return 1
    if offered := maker(root, {}, "wakeful", COMPLETE).complete():
        click.echo(offered)
    return 0
