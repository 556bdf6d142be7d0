"""The requests of the doctor, as a server receives them."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor

from django_mcp.management.doctor.http import ask

RESPONSE = b"HTTP/1.1 200 OK\r\nX-Found: Yes\r\nContent-Length: 2\r\n\r\n{}"


def test_the_names_of_headers_are_sent_as_they_are_written():
    """A client of HTTP/2 writes them in lower case, and some proxies know only the other form."""
    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as pool:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/mcp?a=b%20c"
        headers = {"authorization": "Bearer t", "Mcp-Session-Id": "s"}
        answer = pool.submit(ask, "POST", url, b"[]", headers)
        connection, _address = listener.accept()
        with connection:
            lines = connection.recv(65536).split(b"\r\n")
            connection.sendall(RESPONSE)

    assert lines[0] == b"POST /mcp?a=b%20c HTTP/1.1"
    assert {b"authorization: Bearer t", b"Mcp-Session-Id: s"} <= set(lines)
    assert answer.result().headers["x-found"] == "Yes"
    assert answer.result().status == 200
