"""`python -m dynalsm` is the command line."""

from dynalsm.cli import main

if __name__ == "__main__":
    main()
