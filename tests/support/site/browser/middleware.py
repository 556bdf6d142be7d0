POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "font-src 'self'; frame-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)


class StrictPolicy:
    """Forbids everything inline, from data and from elsewhere."""

    sync_capable = True
    async_capable = False

    def __init__(self, get_response):
        self.get_response = get_response

    def __call__(self, request):
        response = self.get_response(request)
        # As Django's own and django-csp's: a response that has a policy keeps it.
        response.headers.setdefault("Content-Security-Policy", POLICY)
        return response
