"""Folders of skills are read whatever is in them: within limits, and never past their edge."""

from __future__ import annotations

import hashlib
import os
import socket
from pathlib import Path

import pytest

from django_mcp.extensions.skills.core import folders
from django_mcp.extensions.skills.core.folders import Problem, read_skills
from django_mcp.extensions.skills.core.skill import MAX_BYTES, MAX_FILES
from tests.unit.extensions.skills.conftest import write_skill


def problems_of(root: Path) -> list[Problem]:
    """Return the problems, after which no skill is left."""
    found = read_skills(root)
    assert found.skills == []
    return found.problems


def problem_of(root: Path) -> Problem:
    (problem,) = problems_of(root)
    return problem


def test_a_skill_is_read_with_its_files_and_their_digests(root: Path):
    write_skill(
        root, "acme/refunds", files={"scripts/run.py": "print()\n", "logo.png": b"\x89PNG\xff"}
    )

    found = read_skills(root)

    (skill,) = found.skills
    assert found.problems == []
    assert skill.uri == "skill://acme/refunds/SKILL.md"
    assert skill.front_matter == {"name": "refunds", "description": "Do a thing"}
    files = {file.path: (file.mime_type, file.is_text) for file in skill.files or ()}
    assert files == {
        "SKILL.md": ("text/markdown", True),
        "logo.png": ("image/png", False),
        "scripts/run.py": ("text/x-python", True),
    }
    for file in skill.files or ():
        content = (root / "acme/refunds" / file.path).read_bytes()
        assert file.content == content
        assert file.digest == f"sha256:{hashlib.sha256(content).hexdigest()}"


def test_a_skill_inside_of_another_has_its_own_files(root: Path):
    write_skill(root, "acme", files={"notes.md": "a"})
    write_skill(root, "acme/deep/refunds", files={"more/notes.md": "b"})

    outer, inner = read_skills(root).skills

    assert [file.path for file in outer.files or ()] == ["SKILL.md", "notes.md"]
    assert [file.path for file in inner.files or ()] == ["SKILL.md", "more/notes.md"]


def test_hidden_files_and_caches_are_not_served(root: Path):
    hidden: dict[str, str | bytes] = {
        ".env": "SECRET",
        ".git/config": "url",
        "__pycache__/a.pyc": b"\0",
    }
    write_skill(root, "refunds", files=hidden)
    write_skill(root, ".drafts/later")

    (skill,) = read_skills(root).skills

    assert [file.path for file in skill.files or ()] == ["SKILL.md"]


def test_a_root_may_be_a_link_as_deployments_make_them(root: Path, tmp_path: Path):
    write_skill(root, "refunds")
    (tmp_path / "current").symlink_to(root)

    assert [skill.path for skill in read_skills(tmp_path / "current").skills] == ["refunds"]


@pytest.mark.parametrize(
    ("content", "kind", "told"),
    [
        (b"# Refunds\n", "front_matter", "does not begin with a line ---"),
        (b"---\nname: refunds\n---\n", "front_matter", "no description"),
        (b"---\nname: refunds\ndescription: ''\n---\n", "front_matter", "no description"),
        (b"---\nname: refunds\ndescription: a: b\n---\n", "front_matter", "line 3: a text with a"),
        (b"---\nname: other\ndescription: a\n---\n", "name", "'other', and that of its folder"),
        (b"---\nname: 7\ndescription: a\n---\n", "name", "its name is 7"),
        (b"\xef\xbb\xbf---\nname: refunds\ndescription: a\n---\n", "encoding", "byte order mark"),
        (b"---\r\nname: refunds\r\ndescription: a\r\n---\r\n", "encoding", "CR LF"),
        (b"---\nname: refunds\ndescription: \xff\n---\n", "encoding", "not UTF-8: byte 32"),
        (
            b"---\nname: refunds\ndescription: a\nmetadata:\n  io.modelcontextprotocol/a: b\n---\n",
            "front_matter",
            "reserved",
        ),
        (b"---\nname: refunds\ndescription: a\nmetadata: b\n---\n", "front_matter", "a mapping"),
        (b"---\nname: refunds\ndescription: a\nlicense: 1\n---\n", "front_matter", "license"),
        (
            b"---\nname: refunds\ndescription: " + b"a" * 1025 + b"\n---\n",
            "front_matter",
            "1025 characters",
        ),
    ],
)
def test_a_skill_file_with_a_problem(root: Path, content: bytes, kind: str, told: str):
    (write_skill(root, "refunds") / "SKILL.md").write_bytes(content)

    problem = problem_of(root)

    assert problem.kind == kind
    assert told in problem.text
    assert str(root / "refunds" / "SKILL.md") in problem.place


@pytest.mark.parametrize(
    "path", ["Refunds", "re--funds", "-refunds", "re_funds", "r" * 65, "a b/refunds", "ü/refunds"]
)
def test_a_path_that_hosts_do_not_take(root: Path, path: str):
    write_skill(root, path)

    assert problem_of(root).kind == "name"


def test_a_skill_file_in_another_case_or_without_a_folder(root: Path):
    folder = write_skill(root, "refunds")
    (folder / "SKILL.md").rename(folder / "skill.md")
    (root / "SKILL.md").write_text("---\nname: a\n---\n")

    texts = [problem.text for problem in problems_of(root)]

    assert texts == [
        "a skill has a folder of its own below this one",
        "write SKILL.md in just this way",
    ]


# Hostile folders


def test_a_link_that_leaves_the_folder(root: Path, tmp_path: Path):
    (tmp_path / "secret").write_text("SECRET")
    folder = write_skill(root, "refunds")
    (folder / "notes.md").symlink_to(tmp_path / "secret")

    problem = problem_of(root)

    assert problem.kind == "link"
    assert "leaves the folder" in problem.text


@pytest.mark.parametrize("target", ["../../secret", ".env", ".git/config"])
def test_a_link_to_what_is_never_served(root: Path, tmp_path: Path, target: str):
    (tmp_path / "secret").write_text("SECRET")
    folder = write_skill(root, "refunds", files={".env": "SECRET", ".git/config": "SECRET"})
    (folder / "notes.md").symlink_to(target)

    assert problem_of(root).kind == "link"


def test_a_skill_file_that_is_a_link_outside(root: Path, tmp_path: Path):
    outside = write_skill(tmp_path / "other", "refunds")
    (root / "refunds").mkdir()
    (root / "refunds" / "SKILL.md").symlink_to(outside / "SKILL.md")

    assert problem_of(root).kind == "link"


def test_a_folder_of_a_skill_that_is_a_link(root: Path, tmp_path: Path):
    outside = write_skill(tmp_path / "other", "refunds")
    (root / "refunds").symlink_to(outside)

    assert problem_of(root).kind == "link"


def test_a_link_inside_of_the_folder_is_served(root: Path):
    folder = write_skill(root, "refunds", files={"a.md": "one"})
    (folder / "b.md").symlink_to("a.md")

    (skill,) = read_skills(root).skills

    assert {file.path: file.content for file in skill.files or ()}["b.md"] == b"one"


def test_links_in_a_circle(root: Path):
    folder = write_skill(root, "refunds")
    (folder / "a").symlink_to("b")
    (folder / "b").symlink_to("a")

    assert problem_of(root).kind in ("file", "link")


def test_a_link_to_a_folder_above(root: Path):
    folder = write_skill(root, "refunds")
    (folder / "loop").symlink_to(".")

    assert "symbolic link to a folder" in problem_of(root).text


def test_a_pipe_is_not_opened(root: Path):
    os.mkfifo(write_skill(root, "refunds") / "pipe")

    assert problem_of(root).text == "it is no regular file"


def test_a_socket_is_not_opened(root: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(write_skill(root, "refunds"))
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")

        assert problem_of(root).text == "it is no regular file"


def test_a_link_to_a_device(root: Path):
    (write_skill(root, "refunds") / "zero").symlink_to("/dev/zero")

    assert problem_of(root).kind == "link"


def test_a_sparse_file_is_not_read(root: Path):
    with (write_skill(root, "refunds") / "large").open("wb") as file:
        file.truncate(1 << 40)

    problem = problem_of(root)

    assert problem.kind == "limit"
    assert str(MAX_BYTES) in problem.text


def test_files_that_are_too_large_together(root: Path):
    half = b"a" * (MAX_BYTES // 2)
    write_skill(root, "refunds", files={"a": half, "b": half})

    assert problem_of(root).kind == "limit"


def test_as_many_files_as_hosts_load(root: Path):
    write_skill(root, "refunds", files={f"{number}.md": "a" for number in range(MAX_FILES - 1)})

    (skill,) = read_skills(root).skills

    assert len(skill.files or ()) == MAX_FILES


def test_one_file_more(root: Path):
    write_skill(root, "refunds", files={f"{number}.md": "a" for number in range(MAX_FILES)})

    assert "more than 512 files" in problem_of(root).text


def test_files_of_a_skill_inside_count_for_the_outer_one(root: Path):
    write_skill(root, "acme")
    inner = {f"{number}.md": "a" for number in range(MAX_FILES - 1)}
    write_skill(root, "acme/refunds", files=inner)

    found = read_skills(root)

    assert [skill.path for skill in found.skills] == ["acme/refunds"]
    assert [problem.place for problem in found.problems] == [str(root / "acme")]


def test_names_that_are_not_utf_8(root: Path):
    folder = write_skill(root, "refunds")
    try:
        (folder / os.fsdecode(b"\xff.md")).touch()
    except OSError:
        pytest.skip("the file system takes no such name")

    problem = problem_of(root)

    assert problem.kind == "encoding"
    assert "\\xff.md" in problem.place


def test_a_name_with_a_line_break(root: Path):
    write_skill(root, "refunds", files={"a\nb": "a"})

    assert problem_of(root).kind == "name"


def test_folders_that_are_too_deep(root: Path):
    write_skill(root, "/".join("a" * 20))

    assert "levels deep" in problem_of(root).text


def test_more_folders_than_are_read(root: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(folders, "MAX_ENTRIES", 20)
    for number in range(30):
        (root / str(number)).mkdir()

    assert "more than 20 files and folders" in problem_of(root).text


def test_more_bytes_than_a_process_keeps(root: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(folders, "MAX_TOTAL_BYTES", 200)
    for name in "ab":
        write_skill(root, name, "a" * 100)

    found = read_skills(root)

    assert [skill.path for skill in found.skills] == ["a"]
    assert [problem.kind for problem in found.problems] == ["limit"]


def test_a_folder_that_is_not_there(root: Path):
    assert problem_of(root / "no").text == "it is no folder"


def test_one_skill_with_a_problem_does_not_hide_the_others(root: Path):
    write_skill(root, "orders")
    (write_skill(root, "refunds") / "SKILL.md").write_text("# Refunds\n")

    found = read_skills(root)

    assert [skill.path for skill in found.skills] == ["orders"]
    assert len(found.problems) == 1
