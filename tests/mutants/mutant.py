"""What a mutant is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """One wrong line of the engine.

    Attributes:
        file: below the package.
        old: text that stands there exactly once.
        new: what stands there instead.
        why: what is wrong then.
        tests: which tests must notice it, as pytest's `-k` takes it.
    """

    file: str
    old: str
    new: str
    why: str
    tests: str

    def applied(self, text: str) -> str:
        """The file with the wrong line.

        Raises:
            ValueError: the line isn't there once.
        """
        if (found := text.count(self.old)) != 1:
            raise ValueError(
                f"{self.file} has {found} times, not once, the text of the mutant {self.why!r}: "
                f"{self.old!r}; write the mutant anew for the rule as it stands now"
            )
        return text.replace(self.old, self.new)


def of_rule(file: str, tests: str, *rows: tuple[str, str, str]) -> tuple[Mutant, ...]:
    """Mutants of one rule, each as (old, new, why), and which tests must notice them."""
    return tuple(Mutant(file, *row, tests) for row in rows)
