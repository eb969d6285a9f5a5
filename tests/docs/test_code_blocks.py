"""Every code block of README, tutorial and guides runs, or is marked with the reason why it does not."""

from __future__ import annotations

import ast
import runpy
import shlex
import subprocess
import warnings
from collections import Counter
from pathlib import Path

import pytest
from tests.helpers.pages import BACKGROUND, CODE, MARKS, PAGES, ROOT, Block, blocks, rewrite, run

# Blocks that do not run here, by reason. A new one is a decision, not an accident.
MARKED = {
    "README.md": {"setup": 4},
    "docs/tutorial.md": {"setup": 1},
    "docs/guides/board.md": {"board": 8, "setup": 4},
    "docs/guides/cards.md": {"board": 1, "setup": 1},
    "docs/guides/laptop.md": {"setup": 1},
    "docs/guides/simulate.md": {"setup": 2},
    "docs/guides/soc.md": {"setup": 1},
    "docs/guides/several-machines.md": {"setup": 5, "torch": 6},
    "docs/guides/sparse-models.md": {"setup": 3},
}
CODE_BLOCKS = [block for page in PAGES for block in blocks(page) if block.language in CODE]


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=name)
def test_blocks_run_and_print_what_the_page_shows(page: Path, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)  # a reader would see it, and the page does not show it
        for block, expected, printed in run(page, tmp_path):
            assert printed == expected, f"{block.place}: renew it with `python -m tests.helpers.pages {name(page)}`"


def test_marked_blocks_are_known() -> None:
    found: dict[str, Counter[str]] = {}
    for block in CODE_BLOCKS:
        if block.mark is not None:
            found.setdefault(name(block.page), Counter())[block.mark] += 1
    assert found == MARKED


def test_words_behind_a_language_are_marks() -> None:
    known = {*((language, ()) for language in CODE), *((language, (mark,)) for language in CODE for mark in MARKS)}
    known |= {("text", ()), ("text", ("output",)), ("", ()), ("toml", ()), ("sh", (BACKGROUND,))}
    used = {(block.language, block.words) for page in PAGES for block in blocks(page)}
    assert used <= known


@pytest.mark.parametrize("block", CODE_BLOCKS, ids=lambda block: block.place)
def test_every_block_is_valid_code(block: Block) -> None:
    if block.language == "python":
        ast.parse(block.text)
    else:
        subprocess.run(["bash", "-n", "-c", block.text], check=True)


def test_every_command_line_is_valid() -> None:
    """Also of blocks that do not run: their `bitlane` commands have the options that the pages give them."""
    parser = runpy.run_path(str(ROOT / "docs" / "_extensions" / "command_line.py"))["top_parser"]()
    shell = [block for block in CODE_BLOCKS if block.language == "sh"]
    texts = [block.text.replace("\\\n", " ") for block in shell]  # long lines go on
    lines = [line for text in texts for line in text.splitlines() if line.startswith("bitlane ")]
    assert len(lines) > 12
    for line in lines:
        parser.parse_args(shlex.split(line.partition(" | ")[0], comments=True)[1:])


def test_every_page_has_code_that_runs() -> None:
    """All but the board's guide: a parser that finds nothing would pass the tests above."""
    running = {name(block.page) for block in CODE_BLOCKS if block.mark is None}
    assert running == {name(page) for page in PAGES} - {"docs/guides/board.md", "docs/guides/index.md"}
    assert len(CODE_BLOCKS) >= 35


def page_with(folder: Path, *fences: str) -> Path:
    page = folder / "page.md"
    page.write_text("Text.\n\n" + "\n\n".join(f"```{fence}\n```" for fence in fences) + "\n")
    return page


def test_wrong_blocks_are_found(tmp_path: Path) -> None:
    """A block that fails ends the run of its page, and another output than the page shows is seen."""
    wrong = page_with(tmp_path, "python\nx = 1\nprint(x + 1)", "text output\n3", "sh\necho one | grep two")
    found = run(wrong, tmp_path)
    block, expected, printed = next(found)
    assert (block.line, expected, printed) == (9, "3\n", "2\n")
    with pytest.raises(AssertionError, match=r"page\.md:13 ends with 1"):
        next(found)
    with pytest.raises(NameError, match="y"):
        list(run(page_with(tmp_path, "python\nprint(y)"), tmp_path))


def test_text_that_differs_from_run_to_run(tmp_path: Path) -> None:
    """Dots stand for a part of a line; the rest of it is compared."""
    page = page_with(tmp_path, "sh\necho took $RANDOM s, 3 rows", "text output\ntook ... s, 3 rows")
    ((_, expected, printed),) = run(page, tmp_path)
    assert printed == expected
    page = page_with(tmp_path, "sh\necho took $RANDOM s, 3 rows", "text output\ntook ... s, 4 rows")
    ((_, expected, printed),) = run(page, tmp_path)
    assert printed != expected


def test_services_run_until_the_page_ends(tmp_path: Path) -> None:
    """On a free port, whatever port the page names."""
    script = tmp_path / "service.py"
    script.write_text(
        "import http.server, sys\n"
        "server = http.server.HTTPServer(('127.0.0.1', int(sys.argv[1])), http.server.SimpleHTTPRequestHandler)\n"
        "print(f'at http://127.0.0.1:{server.server_port}', flush=True)\n"
        "server.serve_forever()\n"
    )
    ask = "from urllib.request import urlopen; print(urlopen('http://127.0.0.1:8080/service.py').status)"
    page = page_with(
        tmp_path,
        "sh background\npython service.py 8080",
        "text output\nat http://127.0.0.1:8080",
        f'sh\npython -c "{ask}"',
        "text output\n200",
    )
    assert [printed == expected for _, expected, printed in run(page, tmp_path)] == [True, True]


def test_outputs_are_renewed(tmp_path: Path) -> None:
    page = page_with(tmp_path, "python\nprint(2)", "text output\n10", "sh\necho three", "text output\n")
    rewrite(page)
    assert [block.text for block in blocks(page) if block.words] == ["2\n", "three\n"]
