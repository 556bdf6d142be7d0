from django_mcp import tool


@tool(read_only=True)
def find_orders(query: str = "") -> str:
    return f"orders {query}"
