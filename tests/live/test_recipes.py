"""The configuration files of the recipes are accepted by the programs that read them."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.support import sites
from tests.support.backends import require
from tests.support.doc_blocks import ROOT
from tests.support.nginx import PLACES
from tests.support.oauth.local_documents import make_certificate
from tests.support.recipes import FILES, UNITS

NGINX = f"""
pid {{folder}}/pid;
error_log {{folder}}/error.log;
events {{{{}}}}
http {{{{
    {PLACES}
    {{site}}
}}}}
"""


def local(text: str, folder: Path) -> str:
    """Return a file's text with the paths and the interpreter of this machine."""
    text = text.replace("/srv/mysite/.venv/bin/python", sys.executable)
    text = text.replace("User=mysite", "User=root")
    return text.replace("/srv/mysite", str(folder))


def test_nginx_accepts_its_configuration(tmp_path: Path):
    nginx = shutil.which("nginx", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin")
    require(nginx, "nginx is not installed")
    certificate = make_certificate(tmp_path)
    site = FILES["/etc/nginx/conf.d/mysite.conf"].text
    site = re.sub(r"/etc/ssl/mysite/\w+\.pem", str(certificate), site)
    file = tmp_path / "nginx.conf"
    file.write_text(NGINX.format(folder=tmp_path, site=site))

    done = subprocess.run(
        [str(nginx), "-t", "-c", str(file), "-e", str(tmp_path / "error.log")],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr


def test_systemd_accepts_its_units(tmp_path: Path):
    systemd = shutil.which("systemd-analyze")
    require(systemd, "systemd-analyze is not installed")
    for name in UNITS:
        (tmp_path / Path(name).name).write_text(local(FILES[name].text, tmp_path))
    (tmp_path / "mysite@.service").rename(tmp_path / "mysite@8001.service")

    units = sorted(str(path) for path in tmp_path.iterdir())
    done = subprocess.run(
        [str(systemd), "verify", "--man=no", "--recursive-errors=no", *units],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")


def command_of_the_unit(port: int) -> list[str]:
    (line,) = re.findall(
        r"^ExecStart=(.*)", FILES["/etc/systemd/system/mysite@.service"].text, re.MULTILINE
    )
    return shlex.split(local(line, ROOT).replace("%i", str(port)))


def command_of_the_image(port: int) -> list[str]:
    (line,) = re.findall(r"^CMD (.*)", FILES["Dockerfile"].text, re.MULTILINE)
    return [sys.executable, *(word.replace("8000", str(port)) for word in json.loads(line)[1:])]


@pytest.mark.parametrize("command", [command_of_the_unit, command_of_the_image])
def test_the_command_serves_a_site(command, tmp_path: Path):
    port = sites.free_port()
    words = [
        word.replace("mysite.asgi", "example_project.asgi").replace("0.0.0.0", "127.0.0.1")
        for word in command(port)
    ]
    extra = {"SHOP_DATABASE": str(tmp_path / "db.sqlite3")}
    environment = sites.environment("example_project", extra)
    migrate = [sys.executable, "manage.py", "migrate", "-v", "0"]
    subprocess.run(migrate, cwd=ROOT, env=environment, check=True)
    log = tmp_path / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            words,
            cwd=ROOT,
            env=environment,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    site = sites.Running(host="127.0.0.1", port=port, process=process, log=log)
    try:
        sites.wait_until_it_listens(site)
        is_healthy = httpx.get(f"http://127.0.0.1:{port}/mcp/health?ready", timeout=30).json()
    finally:
        site.stop()

    assert is_healthy == {"status": "ok"}
