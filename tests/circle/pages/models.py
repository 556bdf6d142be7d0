"""Pages and snippets of wagtail."""

from __future__ import annotations

from django.db import models
from modelcluster.contrib.taggit import ClusterTaggableManager
from modelcluster.fields import ParentalKey, ParentalManyToManyField
from taggit.models import TaggedItemBase
from wagtail.blocks import CharBlock
from wagtail.fields import RichTextField, StreamField
from wagtail.models import Orderable, Page


class Author(models.Model):
    name = models.CharField(max_length=40)

    def __str__(self) -> str:
        return self.name


class PostTag(TaggedItemBase):
    content_object = ParentalKey("Post", on_delete=models.CASCADE, related_name="tagged_items")


class Post(Page):
    """A page with tags, authors, blocks and children."""

    intro = RichTextField(blank=True)
    body = StreamField([("heading", CharBlock())], blank=True)
    published_on = models.DateField(null=True, blank=True)
    authors = ParentalManyToManyField(Author, blank=True)
    tags = ClusterTaggableManager(through=PostTag, blank=True)
    parent_page_types = ["wagtailcore.Page"]


class PostLink(Orderable):
    post = ParentalKey(Post, on_delete=models.CASCADE, related_name="links")
    title = models.CharField(max_length=40)
    url = models.URLField()

    def __str__(self) -> str:
        return self.title
