"""Boxes, arrows and labels that do not cover each other."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["BOX_HEIGHT", "BOX_WIDTH", "LOOP_HEIGHT", "Point", "Scene"]

Point = tuple[float, float]

# In inches, which are also the units of the drawing.
BOX_WIDTH = 1.9
BOX_HEIGHT = 0.72
LOOP_HEIGHT = 0.42
LOOP_SHIFT = 0.62
ARROW_SHIFT = 0.13
ARROW_STEP = 0.3
"""From an arrow to the next one between the same two boxes."""
CLEAR = 0.06
"""Room between a box and what passes it."""
BENDS = (0.0, 0.5, -0.5, 0.9, -0.9, 1.4, -1.4, 2.0, -2.0, 2.8, -2.8)
"""How far an arrow bends aside, in the order in which bends are tried."""
FRACTIONS = (0.42, 0.5, 0.33, 0.6, 0.25, 0.7, 0.8, 0.18)
"""Where a label may stand along its arrow, in the order in which places are tried."""
LETTER = 0.083
"""Width of a letter of a label."""
LABEL_RADIUS = 0.09
SAMPLES = 24
HITS_MAX = 1000.0


@dataclass
class Arrow:
    """An arrow and its label; `curve` holds begin, control point and end."""

    curve: tuple[Point, Point, Point]
    words: str
    color: str
    width: float
    side: Point
    """Direction from the arrow to the side on which its label stands by preference."""

    def at(self, share: float) -> Point:
        """Returns a point of the arrow, from 0 at its begin to 1 at its end."""
        (ax, ay), (bx, by), (cx, cy) = self.curve
        p, q, r = (1 - share) ** 2, 2 * share * (1 - share), share**2
        return p * ax + q * bx + r * cx, p * ay + q * by + r * cy

    def angle(self, share: float) -> float:
        """Returns its direction in degrees, such that text along it is not upside down."""
        (ax, ay), (bx, by) = self.at(max(share - 0.02, 0.0)), self.at(min(share + 0.02, 1.0))
        angle = math.degrees(math.atan2(by - ay, bx - ax))
        return angle - 180 if angle > 91 else angle + 180 if angle < -89 else angle

    def points(self) -> list[Point]:
        """Returns points along it."""
        return [self.at(k / SAMPLES) for k in range(SAMPLES + 1)]


@dataclass
class Label:
    """A text, its middle and its angle."""

    words: str
    at: Point
    angle: float
    color: str

    def points(self) -> list[Point]:
        """Returns points along its text."""
        half = LETTER * len(self.words) / 2
        dx, dy = math.cos(math.radians(self.angle)), math.sin(math.radians(self.angle))
        steps = [half * (k / 4 - 1) for k in range(9)]
        return [(self.at[0] + dx * step, self.at[1] + dy * step) for step in steps]


@dataclass
class Scene:
    """Boxes by name, and the arrows between them; labels are placed when all is known."""

    boxes: dict[str, Point] = field(default_factory=dict)
    arrows: list[Arrow] = field(default_factory=list)
    labels: list[Label] = field(default_factory=list)
    ranks: dict[tuple[str, str], int] = field(default_factory=dict)

    def connect(self, source: str, target: str, words: str, color: str, width: float) -> None:
        """Adds an arrow from box to box; it bends around other boxes.

        The two directions between two boxes lie side by side, each to the right of its way.
        """
        rank = self.ranks.get((source, target), 0)
        self.ranks[source, target] = rank + 1
        if source == target:
            self._loop(self.boxes[source], words, rank, color, width)
            return
        (sx, sy), (tx, ty) = self.boxes[source], self.boxes[target]
        dx, dy = tx - sx, ty - sy
        length = math.hypot(dx, dy)
        right = dy / length, -dx / length
        shift = ARROW_SHIFT + ARROW_STEP * rank
        begin = sx + right[0] * shift, sy + right[1] * shift
        end = tx + right[0] * shift, ty + right[1] * shift
        others = [at for name, at in self.boxes.items() if name not in (source, target)]
        trials = [
            self._bent(begin, end, (source, target), (right[0] * bend, right[1] * bend))
            for bend in BENDS
        ]
        arrows = [Arrow(curve, words, color, width, right) for curve in trials]
        hits = [sum(is_in_box(p, at) for p in arrow.points() for at in others) for arrow in arrows]
        self.arrows.append(arrows[hits.index(min(hits))])

    def _bent(
        self, begin: Point, end: Point, names: tuple[str, str], bend: Point
    ) -> tuple[Point, Point, Point]:
        """Returns a curve that leaves and reaches its boxes at their edges."""
        middle = (begin[0] + end[0]) / 2 + bend[0] * 2, (begin[1] + end[1]) / 2 + bend[1] * 2
        source, target = (self.boxes[name] for name in names)
        first = leave_box(begin, source, middle[0] - begin[0], middle[1] - begin[1])
        last = leave_box(end, target, middle[0] - end[0], middle[1] - end[1])
        return first, middle, last

    def _loop(self, at: Point, words: str, rank: int, color: str, width: float) -> None:
        """Adds an arrow from a box to itself, above the box and left of arrows from above."""
        x, y = at[0] - LOOP_SHIFT, at[1] + BOX_HEIGHT / 2
        half, top = 0.26 + 0.12 * rank, y + 2 * (LOOP_HEIGHT + 0.2 * rank) - 0.28
        curve = ((x - half, y), (x, top), (x + half, y))
        self.arrows.append(Arrow(curve, words, color, width, (0.0, 1.0)))

    def draw(self, axes: Axes) -> None:
        """Draws arrows and labels; boxes are the caller's."""
        from matplotlib.patches import FancyArrowPatch
        from matplotlib.path import Path

        for arrow in self.arrows:
            line = Path(arrow.curve, [Path.MOVETO, Path.CURVE3, Path.CURVE3])
            style: dict[str, Any] = {"color": arrow.color, "linewidth": arrow.width, "zorder": 4}
            head: dict[str, Any] = {"arrowstyle": "-|>", "mutation_scale": 9 + arrow.width}
            axes.add_patch(FancyArrowPatch(path=line, **style, **head))
        for arrow in self.arrows:
            self.labels.append(self._placed(arrow))
        for label in self.labels:
            write(axes, label)

    def _placed(self, arrow: Arrow) -> Label:
        """Returns the label at the place where it covers least."""
        trials = list(self._places(arrow))
        return min(trials, key=lambda trial: self._covered(trial, arrow))

    def _places(self, arrow: Arrow) -> Iterator[Label]:
        away = 0.13 + arrow.width / 72
        shares = (0.5,) if arrow.side == (0.0, 1.0) else FRACTIONS
        for sign, share in itertools.product((1, -1), shares):
            x, y = arrow.at(share)
            angle = 0.0 if arrow.side == (0.0, 1.0) else arrow.angle(share)
            at = x + sign * arrow.side[0] * away, y + sign * arrow.side[1] * away
            yield Label(arrow.words, at, angle, arrow.color)

    def _covered(self, label: Label, own: Arrow) -> float:
        """Returns how much a label would cover: other labels and boxes count most."""
        points = label.points()
        total = 0.0
        for at in self.boxes.values():
            total += 10.0 * sum(is_in_box(p, at) for p in points)
        for other in self.labels:
            near = [math.dist(p, q) for p in points for q in other.points()]
            total += 10.0 * sum(distance < 2 * LABEL_RADIUS for distance in near)
        for arrow in self.arrows:
            reach = LABEL_RADIUS + arrow.width / 144
            if arrow is not own:
                near = [min(math.dist(p, q) for q in arrow.points()) for p in points]
                total += sum(distance < reach for distance in near)
        return min(total, HITS_MAX)


def is_in_box(point: Point, center: Point) -> bool:
    """Whether a point lies in a box or close to it."""
    inside_x = abs(point[0] - center[0]) < BOX_WIDTH / 2 + CLEAR
    return inside_x and abs(point[1] - center[1]) < BOX_HEIGHT / 2 + CLEAR


def leave_box(point: Point, center: Point, dx: float, dy: float) -> Point:
    """Returns where a line from `point` inside a box in direction (dx, dy) meets the box's edge."""
    steps = []
    for p, c, d, half in (
        (point[0], center[0], dx, BOX_WIDTH / 2),
        (point[1], center[1], dy, BOX_HEIGHT / 2),
    ):
        if abs(d) > 1e-9:
            steps.append((c + math.copysign(half, d) - p) / d)
    step = min(steps)
    return point[0] + dx * step, point[1] + dy * step


def write(axes: Axes, label: Label) -> None:
    """Writes a label with a light edge, so that it can be read over a line."""
    from matplotlib.patheffects import withStroke

    axes.text(
        *label.at,
        label.words,
        ha="center",
        va="center",
        rotation=label.angle,
        rotation_mode="anchor",
        color=label.color,
        fontsize=8.5,
        fontweight="bold",
        zorder=7,
        path_effects=[withStroke(linewidth=2.5, foreground="white")],
    )
