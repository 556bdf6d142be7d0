"""The packages' models, admins and APIs as tools."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from helpdesk.models import Ticket
from helpdesk.user import HelpdeskUser
from helpdesk.views.api import TicketViewSet
from push_notifications.api.rest_framework import GCMDeviceAuthorizedViewSet
from push_notifications.models import GCMDevice

from django_mcp import default_server
from django_mcp.contrib.drf import viewset_tools
from django_mcp.contrib.modeladmin import admin_tools
from django_mcp.contrib.models import ModelTools


class Tickets(ModelTools):
    model = Ticket
    fields = ("id", "title", "status", "priority", "queue__slug")
    filters = ("status", "priority__lte", "queue__slug")
    search = ("title",)
    writes = ("update",)
    writable = ("title", "priority")
    version_field = ""

    def get_queryset(self, user: Any) -> QuerySet[Any]:
        return HelpdeskUser(user).accessible_tickets()


class Devices(ModelTools):
    model = GCMDevice
    fields = ("id", "name", "active", "cloud_message_type")
    filters = ("active",)
    writes = ("update",)
    writable = ("name", "active")

    def get_queryset(self, user: Any) -> QuerySet[Any]:
        return GCMDevice.objects.filter(user_id=user.pk)


Tickets.register(server=default_server)
Devices.register(server=default_server)
admin_tools(server=default_server, models=["helpdesk.ticket"], prefix="admin_")
admin_tools(
    server=default_server, models=["push_notifications.gcmdevice"], actions=False, prefix="admin_"
)
viewset_tools(
    TicketViewSet,
    server=default_server,
    prefix="tickets",
    query={"list": {"status": {"type": "string"}}},
)
viewset_tools(
    GCMDeviceAuthorizedViewSet,
    server=default_server,
    prefix="devices",
    rename={"body.registration_id": "new_registration_id"},
)
