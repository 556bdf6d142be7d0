"""Tools that ask the client, in every way there is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django import forms
from pydantic import BaseModel, Field

from django_mcp import Context, tool
from django_mcp.server.exchange.call import AskFailed


@dataclass
class Colour:
    name: str


class Count(BaseModel):
    number: int = Field(ge=1, le=9)


class Parcel(forms.Form):
    size = forms.ChoiceField(choices=[("s", "Small"), ("l", "Large")])


@tool
def ask_dataclass(ctx: Context) -> str:
    """Ask with a dataclass."""
    answer = ctx.elicit("Which colour?", Colour)
    return answer.data.name if answer.is_accepted else answer.action


@tool
async def ask_model(ctx: Context) -> str:
    """Ask with a pydantic model."""
    answer = await ctx.aelicit("How many?", Count)
    return str(answer.data.number) if answer.is_accepted else answer.action


@tool
def ask_form(ctx: Context) -> str:
    """Ask with a Django form."""
    answer = ctx.elicit("What size?", Parcel)
    return answer.data.cleaned_data["size"] if answer.is_accepted else answer.action


@tool
def ask_page(ctx: Context) -> str:
    """Ask for a visit to a page."""
    return ctx.elicit_url("Pay, please", "https://pay.example/7").action


@tool
def ask_twice(ctx: Context) -> str:
    """Ask two things, one after the other, and do something once."""
    token = ctx.once("token", lambda: "t")
    first = ctx.elicit("First colour?", Colour)
    second = ctx.elicit("Second colour?", Colour)
    return f"{token} {first.data.name} {second.data.name}"


@tool
async def sample(ctx: Context) -> Any:
    """Ask the client's model."""
    answer = await ctx.asample("Capital of France?", max_tokens=10)
    return answer.text


@tool
async def sample_as(ctx: Context, name: str) -> str:
    """Ask the client's model under an id of our own."""
    try:
        answer = await ctx.asample("Capital of France?", max_tokens=10, request_id=name)
    except AskFailed as error:
        return str(error)
    return answer.text


@tool
def stop_asking(ctx: Context, name: str) -> bool:
    """Cancel what the client is asked by another call."""
    return ctx.cancel_request(name, "Enough")


@tool
def roots(ctx: Context) -> list[str]:
    """Ask for the roots."""
    return [root["uri"] for root in ctx.list_roots()]


@tool
async def ping(ctx: Context) -> bool:
    """Ping the client."""
    return await ctx.aping_client() is not None
