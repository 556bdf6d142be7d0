from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from example_project.shop import sales
from example_project.shop.models import Order


class GiftWrapForm(forms.ModelForm):
    """How an order is to be wrapped; what is chosen is kept in the order's note."""

    paper = forms.ChoiceField(
        label=_("Paper"), choices=[("plain", _("Plain")), ("stars", _("Stars"))]
    )
    note = forms.CharField(
        label=_("Card"), help_text=_("What the card says."), max_length=120, required=False
    )

    class Meta:
        model = Order
        fields = ["note"]

    def clean(self) -> dict[str, Any]:
        data = super().clean() or {}
        if data.get("paper") == "stars" and len(data.get("note", "")) > 40:
            raise forms.ValidationError(_("The cards with stars hold 40 letters."))
        data["note"] = f"{data.get('paper')}: {data.get('note', '')}"
        return data


class VoucherForm(forms.Form):
    """The code of a voucher, which is as good as money."""

    code = forms.CharField(label=_("Code"), max_length=20)

    def clean_code(self) -> int:
        euros = sales.VOUCHERS.get(self.cleaned_data["code"])
        if euros is None:
            raise forms.ValidationError(_("There is no such voucher."))
        return euros
