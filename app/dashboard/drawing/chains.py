"""Charts of convergence: traces, ranks, and diagnostics by number of draws."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.dashboard.drawing.canvas import ChartStyle, draw, draw_arviz
from app.services.explanations.convergence import Growth, rank_curves

Floats = NDArray[np.float64]


def trace(sigma: Floats, shown: NDArray[np.int64], look: ChartStyle) -> bytes:
    """Draw the traces of sigma, one line per chain; `shown` holds the indices of the draws."""

    def make(options: dict[str, Any], look: ChartStyle) -> Any:
        from arviz_plots import plot_trace  # noqa: PLC0415

        return plot_trace(
            _tree(sigma, shown),
            visuals={"title": False, "xlabel": False, "trace": {"width": 0.8, "alpha": 0.85}},
            color=list(look.colours.chains[: len(sigma)]),
            **options,
        )

    def finish(figure: Any, look: ChartStyle) -> None:
        (axes,) = figure.axes
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.set_xlabel("kept draw")
        axes.set_ylabel("sigma")
        axes.margins(x=0.01)
        _name_chains(axes, len(sigma), look)

    return draw_arviz(make, finish, look)


def ranks(sigma: Floats, every: int, look: ChartStyle) -> bytes:
    """Draw the distribution of each chain's ranks among all draws, minus the uniform distribution.

    `sigma`, float64 [chain, draw], holds each `every`-th draw: the band is that of independent draws.
    """

    def make(options: dict[str, Any], look: ChartStyle) -> Any:
        from arviz_plots import plot_rank  # noqa: PLC0415

        return plot_rank(
            _tree(sigma, np.arange(sigma.shape[1])),
            visuals={
                "title": False,
                "xlabel": False,
                "ecdf_lines": False,  # we draw our own: these start at the first draw and have 200 points
                "credible_interval": {"color": look.colours.soft, "alpha": 0.16},
                "remove_axis": False,
            },
            color=list(look.colours.chains[: len(sigma)]),
            **options,
        )

    def finish(figure: Any, look: ChartStyle) -> None:
        (axes,) = figure.axes
        colours = look.colours.chains
        for chain, (share, above) in enumerate(rank_curves(sigma)):
            axes.plot(share, above, color=colours[chain % len(colours)], lw=1.2)
        thinning = "" if every == 1 else f"; one draw in {every}"
        axes.set_xlabel(f"rank among all chains, as a share{thinning}")
        axes.set_ylabel("share below, less expected")
        axes.margins(x=0.01)
        _name_chains(axes, len(sigma), look)

    return draw_arviz(make, finish, look)


def agreement(growth: Growth, look: ChartStyle) -> bytes:
    """Draw R-hat and effective sample size by number of draws."""

    def paint(figure: Any, look: ChartStyle) -> None:
        beside = (2, 1) if look.narrow else (1, 2)
        left, right = figure.subplots(*beside)
        colours, draws = look.colours, growth.draws
        dashed: Any = (0, (3, 2))
        series: list[tuple[str, Any, str, str, Any]] = [
            ("f, median row", growth.f, "rhat", colours.accent, "-")
        ]
        if "rhat_p95" in growth.f:
            series.append(("f, 95% of rows", growth.f, "rhat_p95", colours.chains[2], dashed))
        if growth.sigma:
            series.append(("sigma", growth.sigma, "rhat", colours.fair, "-"))
        for label, of, name, colour, style in series:
            left.plot(draws, _floats(of[name]), color=colour, ls=style, lw=1.5, marker="o", ms=3, label=label)
        limit = growth.limits["converged"]["rhat"]
        left.axhline(limit, color=colours.soft, lw=0.9, ls=(0, (1, 2)), label=f"{limit}: converged")
        left.set_title("R-hat")
        bulk = [
            ("f, centre", "ess_bulk", colours.accent, "-"),
            ("f, tails", "ess_tail", colours.chains[2], dashed),
        ]
        for label, name, colour, style in bulk:
            right.plot(
                draws,
                _floats(growth.f[name]),
                color=colour,
                ls=style,
                lw=1.5,
                marker="o",
                ms=3,
                label=label,
            )
        if growth.sigma:
            right.plot(
                draws,
                _floats(growth.sigma["ess_bulk"]),
                color=colours.fair,
                lw=1.5,
                marker="o",
                ms=3,
                label="sigma",
            )
        right.set_title("Effective draws")
        right.set_ylim(bottom=0)
        for axes in (left, right):
            axes.set_xlabel("kept draws of each chain")
            axes.legend(loc="best")

    return draw(paint, look)


def _tree(sigma: Floats, draws: NDArray[np.int64]) -> Any:
    from arviz_base import from_dict  # noqa: PLC0415

    return from_dict({"posterior": {"sigma": sigma}}, coords={"draw": draws})


def _name_chains(axes: Any, count: int, look: ChartStyle) -> None:
    from matplotlib.lines import Line2D  # noqa: PLC0415

    if count > len(look.colours.chains):
        return
    marks = [Line2D([], [], color=colour, lw=2) for colour in look.colours.chains[:count]]
    names = [f"chain {i + 1}" for i in range(count)]
    # Above the axes, since the lines may be anywhere.
    axes.legend(
        marks,
        names,
        loc="lower right",
        bbox_to_anchor=(1, 1),
        borderaxespad=0.2,
        ncols=min(count, 4) if look.narrow else count,
        columnspacing=1.2,
    )


def _floats(values: Any) -> Floats:
    return np.array([np.nan if value is None else value for value in values], np.float64)
