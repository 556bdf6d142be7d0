"""The check of tools that start jobs and send mail before their transaction is committed."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Thread
from typing import Any

from django.contrib.auth.models import Group, User
from django.core import mail
from django.core.checks import run_checks
from django.core.mail import EmailMessage, send_mail
from django.db import transaction
from ninja import NinjaAPI
from rest_framework import serializers, viewsets

from django_mcp import MCPServer
from django_mcp.contrib.drf import viewset_tools
from django_mcp.contrib.models import ModelTools
from django_mcp.contrib.ninja import operation_tools
from example_project.shop.models import Product


class Shelf:
    """As an object of a model."""

    def save(self) -> None: ...

    def close(self) -> None:
        self.save()


class Job:
    """A job as of Celery."""

    def delay(self, *args: Any) -> None: ...
    def apply_async(self, **options: Any) -> None: ...
    def enqueue(self, *args: Any) -> None: ...


job = Job()


def find_queue() -> Any: ...


def delayed(name: str) -> str:
    group = Group.objects.create(name=name)
    job.delay(group.pk)
    return "made"


def enqueued(name: str) -> str:
    User.objects.filter(username=name).update(is_active=False)
    find_queue().enqueue(print, name)
    return "done"


def written_by_a_method(name: str) -> str:
    shelf = Shelf()
    shelf.close()
    job.apply_async(args=[name])
    return "done"


def written_by_a_function(name: str) -> str:
    make_group(name)
    job.delay(name)
    return "done"


def make_group(name: str) -> None:
    Group.objects.create(name=name)


def mailed(name: str) -> str:
    Group.objects.create(name=name)
    send_mail("new", name, None, ["staff@example.com"])
    mail.mail_admins("new", name)
    return "made"


def message_sent(name: str) -> str:
    user = User.objects.get(username=name)
    user.save()
    message = EmailMessage("new", name)
    message.send()
    user.email_user("new", name)
    return "made"


def after_the_commit(name: str) -> str:
    group = Group.objects.create(name=name)
    transaction.on_commit(lambda: job.delay(group.pk))
    transaction.on_commit(partial(send_mail, "new", name, None, ["staff@example.com"]))

    @transaction.on_commit
    def tell() -> None:
        send_mail("new", name, None, ["staff@example.com"])

    return "made"


def in_threads(name: str) -> str:
    group = Group.objects.create(name=name)
    Thread(target=print, args=(group.pk,)).start()
    POOL.submit(print, group.pk)
    return "made"


POOL = ThreadPoolExecutor()


def only_reads(name: str) -> str:
    user = User.objects.get(username=name)
    job.delay(user.get_username())
    send_mail("hello", name, None, [user.email])
    return "started"


def without_a_transaction(name: str) -> str:
    group = Group.objects.create(name=name)
    job.delay(group.pk)
    return "made"


class ProductSerializer(serializers.ModelSerializer[Product]):
    class Meta:
        model = Product
        fields = ("sku", "name")

    def update(self, instance: Product, validated_data: Any) -> Product:
        product = super().update(instance, validated_data)
        job.delay(product.pk)
        return product


class Products(viewsets.ModelViewSet[Product]):
    queryset = Product.objects.all()
    serializer_class = ProductSerializer

    def perform_create(self, serializer: Any) -> None:
        product = serializer.save()
        job.delay(product.pk)


class ProductTools(ModelTools):
    model = Product
    fields = ["sku", "name", "category", "price"]
    writes = ["create", "delete"]
    writable = ["sku", "name", "category", "price"]
    everyone = True

    def save_model(self, user: Any, instance: Any, form: Any, change: bool) -> None:
        super().save_model(user, instance, form, change)
        job.delay(instance.pk)

    def delete_model(self, user: Any, instance: Any) -> None:
        instance.delete()
        transaction.on_commit(lambda: job.delay(instance.pk))


def test_the_code_of_generated_tools_is_read_too(settings: Any):
    settings.DJANGO_MCP = {}
    api = NinjaAPI(urls_namespace="before-commit")

    @api.post("/products")
    def create(request: Any, sku: str) -> str:
        Product.objects.create(sku=sku, name=sku, category="x", price=1)
        send_mail("new", sku, None, ["staff@example.com"])
        return sku

    server = MCPServer("before-commit-of-views", public=True)
    viewset_tools(Products, server=server, prefix="viewed")
    ProductTools.register(server=server)
    operation_tools(api, server=server, prefix="operated")

    ours = sorted(
        each.msg.removeprefix(f"{__name__}.")
        for each in run_checks(tags=["django_mcp"])
        if each.id == "django_mcp.I021" and __name__ in each.msg
    )

    assert [each.partition(" in line ")[0].rpartition("<locals>.")[2] for each in ours] == [
        "ProductSerializer.update, in the code of the tool viewed_create, starts a job with job.delay()",
        "ProductTools.save_model, in the code of the tool create_product, starts a job with job.delay()",
        "Products.perform_create, in the code of the tool viewed_create, starts a job with job.delay()",
        "create, in the code of the tool operated_create, sends a mail with send_mail()",
    ]


def test_jobs_and_mail_before_the_commit_are_told():
    server = MCPServer("before-commit", public=True)
    for each in (
        delayed,
        enqueued,
        written_by_a_method,
        written_by_a_function,
        in_threads,
        mailed,
        message_sent,
    ):
        server.tool(atomic=True)(each)
    for each in (after_the_commit, only_reads):
        server.tool(atomic=True)(each)
    server.tool(atomic=False)(without_a_transaction)

    ours = [
        each.msg
        for each in run_checks(tags=["django_mcp"])
        if each.id == "django_mcp.I021"
        and each.msg.startswith(f"{__name__}.")
        and ", in the code of the tool " not in each.msg
    ]

    found = [
        (words := each.removeprefix(f"{__name__}.").partition(" in line ")[0].split(" "))[0]
        + " "
        + " ".join(words[2:])
        for each in ours
    ]
    assert found == [
        "delayed starts a job with job.delay()",
        "enqueued starts a job with find_queue().enqueue()",
        "written_by_a_method starts a job with job.apply_async()",
        "written_by_a_function starts a job with job.delay()",
        "in_threads starts a job with Thread(target=print, args=(group.pk,)).start()",
        "in_threads starts a job with POOL.submit()",
        "mailed sends a mail with send_mail()",
        "mailed sends a mail with mail.mail_admins()",
        "message_sent sends a mail with message.send()",
        "message_sent sends a mail with user.email_user()",
    ]
