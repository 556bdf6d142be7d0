"""Models with the fields, managers and base classes of packages."""

from __future__ import annotations

from django.contrib.auth.models import User
from django.contrib.contenttypes.fields import GenericForeignKey, GenericRelation
from django.contrib.contenttypes.models import ContentType
from django.core.serializers.json import DjangoJSONEncoder
from django.db import models
from django_countries.fields import CountryField
from djmoney.models.fields import CurrencyField, MoneyField
from mptt.models import MPTTModel, TreeForeignKey, TreeManyToManyField
from multiselectfield import MultiSelectField
from parler.models import TranslatableModel, TranslatedFields
from phonenumber_field.modelfields import PhoneNumberField
from polymorphic.models import PolymorphicModel
from simple_history.models import HistoricalRecords
from solo.models import SingletonModel
from taggit.managers import TaggableManager
from taggit.models import GenericTaggedItemBase, TagBase
from treebeard.al_tree import AL_Node
from treebeard.mp_tree import MP_Node
from treebeard.ns_tree import NS_Node


class State(models.TextChoices):
    NEW = "new", "New"
    DONE = "done", "Done"


class Rank(models.IntegerChoices):
    LOW = 1, "Low"
    HIGH = 2, "High"


class Price(models.Model):
    """Money, with a currency of each row, a fixed one, and none at all."""

    name = models.CharField(max_length=40)
    net = MoneyField(max_digits=14, decimal_places=2, default_currency="EUR")
    gross = MoneyField(
        max_digits=14, decimal_places=2, null=True, blank=True, default_currency="EUR"
    )
    fee = MoneyField(max_digits=14, decimal_places=2, default=0, default_currency="USD")
    currency = CurrencyField(blank=True)

    def __str__(self) -> str:
        return self.name


class Contact(models.Model):
    """Phones, countries and selections."""

    name = models.CharField(max_length=40)
    phone = PhoneNumberField(region="DE")
    fax = PhoneNumberField(blank=True)
    mobile = PhoneNumberField(null=True, blank=True, unique=True)
    country = CountryField()
    origin = CountryField(blank=True, null=True)
    visited = CountryField(multiple=True, blank=True)
    colors = MultiSelectField(choices=[("r", "Red"), ("g", "Green")], max_length=10)
    sizes = MultiSelectField(choices=[(1, "S"), (2, "M")], max_length=10, null=True, blank=True)
    user = models.OneToOneField(User, models.SET_NULL, null=True, blank=True)

    def __str__(self) -> str:
        return self.name


class Plain(models.Model):
    """Every field of Django that has its own form of null and of empty."""

    name = models.CharField(max_length=40)
    code = models.CharField(max_length=10, null=True, blank=True, unique=True)
    state = models.CharField(max_length=10, choices=State, default=State.NEW)
    rank = models.IntegerField(choices=Rank, null=True, blank=True)
    is_open = models.BooleanField(null=True, blank=True)
    is_done = models.BooleanField(default=False)
    host = models.GenericIPAddressField(null=True, blank=True)
    settings = models.JSONField(default=dict, blank=True)
    items = models.JSONField(default=list, blank=True)
    details = models.JSONField(null=True, blank=True, encoder=DjangoJSONEncoder)
    took = models.DurationField(null=True, blank=True)
    due_on = models.DateField(null=True, blank=True)
    due_at = models.DateTimeField(null=True, blank=True)
    starts_at = models.TimeField(null=True, blank=True)
    factor = models.DecimalField(max_digits=20, decimal_places=10, default=0)
    share = models.FloatField(null=True, blank=True)
    site = models.URLField(blank=True)
    mail = models.EmailField(blank=True)
    memo = models.TextField(null=True, blank=True)  # noqa: DJ001
    slug = models.SlugField(blank=True)
    key = models.UUIDField(null=True, blank=True)
    document = models.FileField(upload_to="documents", blank=True)
    changed = models.DateTimeField(auto_now=True)

    def __str__(self) -> str:
        return self.name


class Topic(TagBase):
    """A tag of the site's own."""


class TaggedByTopic(GenericTaggedItemBase):
    tag = models.ForeignKey(Topic, models.CASCADE, related_name="items")


class Article(models.Model):
    """Tags, of both kinds, and a history."""

    title = models.CharField(max_length=40)
    tags = TaggableManager(blank=True)
    topics = TaggableManager(through=TaggedByTopic, blank=True, related_name="articles")
    notes = GenericRelation("Note")
    history = HistoricalRecords()

    def __str__(self) -> str:
        return self.title


class Note(models.Model):
    """Belongs to any object."""

    text = models.CharField(max_length=40)
    content_type = models.ForeignKey(ContentType, models.CASCADE)
    object_id = models.PositiveIntegerField()
    target = GenericForeignKey()

    def __str__(self) -> str:
        return self.text


class Member(models.Model):
    name = models.CharField(max_length=40)

    def __str__(self) -> str:
        return self.name


class Club(models.Model):
    """A relation to many with a model in between."""

    name = models.CharField(max_length=40)
    members = models.ManyToManyField(Member, through="Membership", related_name="clubs")
    guests = models.ManyToManyField(Member, blank=True, related_name="visited")

    def __str__(self) -> str:
        return self.name


class Membership(models.Model):
    club = models.ForeignKey(Club, models.CASCADE)
    member = models.ForeignKey(Member, models.CASCADE)
    since = models.DateField()

    class Meta:
        unique_together = ("club", "member")

    def __str__(self) -> str:
        return f"{self.member} of {self.club}"


class Recipe(TranslatableModel):
    """Fields in several languages."""

    minutes = models.IntegerField()
    translations = TranslatedFields(
        title=models.CharField(max_length=40), text=models.TextField(blank=True)
    )

    def __str__(self) -> str:
        return self.safe_translation_getter("title", any_language=True) or "?"


class Project(PolymorphicModel):
    name = models.CharField(max_length=40)

    def __str__(self) -> str:
        return self.name


class ArtProject(Project):
    artist = models.CharField(max_length=40)


class ResearchProject(Project):
    head = models.ForeignKey(Member, models.CASCADE)


class Genre(MPTTModel):
    name = models.CharField(max_length=40)
    parent = TreeForeignKey("self", models.CASCADE, null=True, blank=True, related_name="children")

    def __str__(self) -> str:
        return self.name


class Album(models.Model):
    name = models.CharField(max_length=40)
    genre = TreeForeignKey(Genre, models.PROTECT)
    others = TreeManyToManyField(Genre, blank=True, related_name="others")

    def __str__(self) -> str:
        return self.name


class Place(MP_Node):
    name = models.CharField(max_length=40)

    def __str__(self) -> str:
        return self.name


class Chapter(NS_Node):
    name = models.CharField(max_length=40)

    def __str__(self) -> str:
        return self.name


class Folder(AL_Node):
    name = models.CharField(max_length=40)
    parent = models.ForeignKey(
        "self", models.CASCADE, null=True, db_index=True, related_name="children_set"
    )
    node_order_by = ["name"]

    def __str__(self) -> str:
        return self.name


class Settings(SingletonModel):
    title = models.CharField(max_length=40, default="Site")

    def __str__(self) -> str:
        return "settings"


class Report(models.Model):
    """A model whose admin keeps versions, imports and asks for permissions of objects."""

    title = models.CharField(max_length=40)

    class Meta:
        verbose_name = "Übersicht"
        verbose_name_plural = "Übersichten"

    def __str__(self) -> str:
        return self.title
