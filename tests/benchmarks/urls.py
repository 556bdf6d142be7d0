"""The benchmark site's URLs: the endpoint, and a bare view that shows what Django alone costs."""

from django.http import HttpRequest, HttpResponse
from django.urls import include, path
from django.views.decorators.csrf import csrf_exempt

from tests.benchmarks.floor import CALL_RESULT


@csrf_exempt
async def bare(request: HttpRequest) -> HttpResponse:
    """Read the body and answer what `aecho` would, with no work in between."""
    assert request.body
    return HttpResponse(CALL_RESULT, content_type="application/json")


urlpatterns = [path("", include("django_mcp.urls")), path("bare", bare)]
