"""A fuzzer for the whole server: realistic conversations of every revision, mutated, in process and over sockets.

    python -m tests.fuzz --messages 1000000 --sockets 100000
    python -m tests.fuzz --values 100000 --database postgresql

With `--values`, generated tools are called with extreme values of every type, each on a database of its own.

`__main__` has the options. Equal seeds make equal conversations, so a failure can be run again by
its seed and round. `test_fuzz` runs a small share of it.
"""
