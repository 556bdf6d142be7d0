"""A text that would do something, were it not shown inert."""

SCRIPT = "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 2'>"
