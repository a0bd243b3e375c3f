"""`python -m paritygate_frontends` is the same as the command `paritygate`."""

from paritygate_frontends.cli.main import main

if __name__ == "__main__":
    main()
