"""The shop's orders and products as tools of every source, which do the same for the same users."""

from __future__ import annotations

from django_mcp import MCPServer
from django_mcp.auth.authenticators import APIKeyAuthenticator
from django_mcp.contrib.drf import viewset_tools
from django_mcp.contrib.modeladmin import admin_tools
from django_mcp.contrib.ninja import operation_tools
from example_project.storefront.mcp import Orders, Products
from example_project.storefront.ninja_api import api
from example_project.storefront.rest import OrderViewSet

server = MCPServer("shop-sources", public=True, authenticators=[APIKeyAuthenticator()])

Orders.register(server=server)
Products.register(server=server)
viewset_tools(OrderViewSet, server=server, prefix="rest_orders")
operation_tools(api, server=server, prefix="ninja")
admin_tools(server=server, models=["shop.order", "shop.product"], prefix="admin_")
