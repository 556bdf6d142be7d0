"""Run nginx before a server of the tests."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support import sites

PLACES = """
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
"""
"""What nginx would write elsewhere, of its block `http`."""

CONFIGURATION = f"""
daemon off;
pid {{folder}}/pid;
error_log {{folder}}/error.log;
{{user}}
events {{{{ worker_connections 128; }}}}
http {{{{
    {PLACES}
    {{upstream}}
    server {{{{
        listen 127.0.0.1:{{port}};
        {{location}}
    }}}}
}}}}
"""


@contextmanager
def nginx(
    program: str, folder: Path, location: str, *, upstream: str = ""
) -> Iterator[sites.Running]:
    """Run nginx with these blocks of its configuration while the block runs."""
    port = sites.free_port()
    user = "user root;" if os.geteuid() == 0 else ""
    configuration = folder / "nginx.conf"
    configuration.write_text(
        CONFIGURATION.format(
            folder=folder, user=user, upstream=upstream, port=port, location=location
        )
    )
    log = folder / "nginx.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [program, "-p", str(folder), "-c", str(configuration)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    running = sites.Running(host="127.0.0.1", port=port, process=process, log=log)
    try:
        sites.wait_until_it_listens(running)
        yield running
    finally:
        running.stop()
