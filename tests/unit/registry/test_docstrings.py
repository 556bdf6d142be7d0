"""Descriptions from docstrings of every common style."""

import functools

import pytest

from django_mcp.registry.docstrings import read_docs


def google(query, limit):
    """Search orders.

    Newest first:
    at most 100.

    Args:
        query (str): What to
            look for.
        limit (int, optional): How many. Defaults to 3.

    Returns:
        list: Orders.

    Raises:
        ValueError: Never.
    """


def numpy(query, limit):
    """Search orders.

    Newest first:
    at most 100.

    Parameters
    ----------
    query : str
        What to
        look for.
    limit : int, optional
        How many. Defaults to 3.

    Returns
    -------
    list
        Orders.
    """


def sphinx(query, limit):
    """Search orders.

    Newest first:
    at most 100.

    :param str query: What to
        look for.
    :param limit: How many. Defaults to 3.
    :type limit: int
    :returns: Orders.
    :raises ValueError: Never.
    """


@pytest.mark.parametrize("function", [google, numpy, sphinx])
def test_the_description_is_all_but_the_sections_on_the_signature(function):
    assert read_docs(function).description == "Search orders.\n\nNewest first:\nat most 100."


@pytest.mark.parametrize("function", [google, numpy, sphinx])
def test_parameters_are_described(function):
    assert read_docs(function).parameters == {
        "query": "What to look for.",
        "limit": "How many. Defaults to 3.",
    }


def test_a_plain_docstring_is_the_description():
    def plain():
        """One line
        and another.
        """

    assert read_docs(plain).description == "One line\nand another."


def test_no_docstring_is_no_description():
    assert read_docs(lambda: None).description is None


def test_an_empty_docstring_is_no_description():
    def empty():
        """ """

    assert read_docs(empty).description is None


def test_examples_and_notes_stay_with_the_description():
    def noted(x):
        """Do it.

        Parameters
        ----------
        x : int
            A number.

        Notes
        -----
        Be careful.

        Examples
        --------
        >>> noted(1)
        """

    assert (
        read_docs(noted).description == "Do it.\n\nNotes:\nBe careful.\n\nExamples:\n>>> noted(1)"
    )


def test_a_partial_has_the_docstring_of_its_function():
    assert read_docs(functools.partial(google, "x")) == read_docs(google)


def test_an_object_is_described_by_its_call_or_else_by_its_class():
    class Both:
        """The class."""

        def __call__(self):
            """The call."""

    class Silent:
        """The class."""

        def __call__(self): ...

    assert read_docs(Both()).description == "The call."
    assert read_docs(Silent()).description == "The class."
