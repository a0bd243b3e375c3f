"""The plot: the share of the limit that each tool reaches, along each axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.peers.given import Given
from bench.peers.table import Results


def draw(
    path: Path, axes: Mapping[str, Mapping[str, Given]], results: Results, tools: Sequence[str]
) -> None:
    """Draw a panel an axis, with the names of its ticks; what wasn't measured is left out."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(1, len(axes), figsize=(4.2 * len(axes), 6), sharey=True)
    colours = pyplot.get_cmap("tab10").colors
    for panel, (title, givens) in zip(panels, axes.items(), strict=True):
        for place, tool in enumerate(tools):
            points = [
                (x, one.share)
                for x, given in enumerate(givens.values())
                for one in results.get(given.name, ())
                if one.tool == tool
            ]
            if points:
                xs, shares = zip(*points, strict=True)
                panel.errorbar(
                    xs,
                    [share.median for share in shares],
                    [
                        [share.median - share.low for share in shares],
                        [share.high - share.median for share in shares],
                    ],
                    marker="o",
                    capsize=2,
                    color=colours[place % len(colours)],
                    linewidth=2.5 if place == 0 else 1,
                    label=tool.replace("`", ""),
                )
        panel.axhline(1.0, color="black", linestyle="--", linewidth=1)
        panel.set_xticks(range(len(givens)), list(givens))
        panel.set_title(title)
        panel.grid(axis="y", which="both", alpha=0.2)
    panels[0].set_yscale("log")
    panels[0].set_ylabel("share of the limit (1.00: reading both arrays)")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=3, frameon=False)
    figure.tight_layout(rect=(0, 0.18, 1, 1))
    figure.savefig(path, dpi=110, metadata={"Software": None})
    pyplot.close(figure)
