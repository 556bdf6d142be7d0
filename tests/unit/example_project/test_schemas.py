"""Clients accept the schemas of the shop's tools."""

from tests.support.client_schemas import violations_of_servers


def test_clients_accept_every_schema_of_the_shop():
    count, found = violations_of_servers()

    assert count > 10
    assert found == []
