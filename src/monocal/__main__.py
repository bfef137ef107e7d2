"""`python -m monocal` is the command line."""

from monocal.cli.main import run

if __name__ == "__main__":
    run()
