"""The latencies as a picture: one SVG that needs nothing else. A panel for each dtype, batch and number of
threads, a group of bars for each model: the speed of each engine, eager's being 1."""

from xml.sax.saxutils import escape

from bench.models.cases import CASES
from bench.models.engines import ENGINES
from bench.models.worker import Latency

COLORS = {
    "tenon": "#d9480f",
    "eager": "#adb5bd",
    "inductor": "#748ffc",
    "inductor_freezing": "#4263eb",
    "inductor_autotune": "#1c3faa",
    "onnxruntime": "#38a3a5",
    "openvino": "#7048a8",
}
LABELS_X, PLOT_X, PLOT_WIDTH, MARGIN = 14, 214, 250, 46
TOP, BAR, GAP = 74, 11, 12
PANEL = PLOT_X - LABELS_X + PLOT_WIDTH + MARGIN
MOST = 5.0  # a longer bar ends here, with its number


def draw(latencies: list[Latency]) -> str:
    ways = list(dict.fromkeys(map(way_of, latencies)))
    models = [name for name in CASES if any(row.model == name for row in latencies)]
    engines = [name for name in ENGINES if any(row.engine == name for row in latencies)]
    group = len(engines) * BAR + GAP
    width = LABELS_X + PANEL * len(ways)
    height = TOP + group * len(models) + 24
    box = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {box} font-family="system-ui, sans-serif">',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        text(LABELS_X, 24, "Speed on whole models, PyTorch eager being 1", size=14, bold=True),
        *legend(engines),
    ]
    for place, way in enumerate(ways):
        mine = [row for row in latencies if way_of(row) == way]
        parts += panel(place * PANEL, way, models, engines, mine, group)
    return "\n".join((*parts, "</svg>")) + "\n"


def way_of(row: Latency) -> str:
    batch = f", batch x{row.batch}" if row.batch > 1 else ""
    return f"{row.dtype}{batch}, {row.threads} thread{'s' if row.threads > 1 else ''}"


def text(x: float, y: float, words: str, size: int = 11, bold: bool = False, anchor: str = "start") -> str:
    weight = 600 if bold else 400
    style = f'font-size="{size}" font-weight="{weight}" text-anchor="{anchor}" fill="#212529"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{escape(words)}</text>'


def legend(engines: list[str]) -> list[str]:
    parts, x = [], LABELS_X
    for name in engines:
        title = ENGINES[name].title
        parts.append(f'<rect x="{x}" y="36" width="11" height="11" fill="{COLORS[name]}"/>')
        parts.append(text(x + 16, 46, title))
        x += 32 + 7 * len(title)
    return parts


def panel(x: float, way: str, models: list[str], engines: list[str], rows: list[Latency], group: int) -> list[str]:
    bottom = TOP + group * len(models)
    parts = [text(x + PLOT_X, TOP - 10, way, bold=True)]
    for mark in range(int(MOST) + 1):
        at = x + PLOT_X + PLOT_WIDTH * mark / MOST
        color = "#868e96" if mark == 1 else "#e9ecef"
        parts.append(f'<line x1="{at:.1f}" y1="{TOP - 4}" x2="{at:.1f}" y2="{bottom}" stroke="{color}"/>')
        parts.append(text(at, bottom + 14, str(mark), size=10, anchor="middle"))
    for place, model in enumerate(models):
        top = TOP + group * place
        middle = top + (group - GAP) / 2 + 4
        parts.append(text(x + PLOT_X - 8, middle, CASES[model].title, anchor="end"))
        found = {row.engine: row for row in rows if row.model == model}
        for line, name in enumerate(engines):
            parts += bar(x + PLOT_X, top + line * BAR, name, speed(name, found))
    return parts


def speed(engine: str, rows: dict[str, Latency]) -> float | None:
    """Of an engine, eager's being 1: both ratios are to Tenon's time."""
    mine, eager = rows.get(engine), rows.get("eager")
    if mine is None or eager is None or mine.ratio is None or eager.ratio is None:
        return None
    return eager.ratio / mine.ratio


def bar(x: float, y: float, engine: str, value: float | None) -> list[str]:
    if value is None:
        return [text(x + 4, y + BAR - 2, "-", size=9)]
    length = PLOT_WIDTH * min(value, MOST) / MOST
    shape = f'<rect x="{x:.1f}" y="{y + 0.5:.1f}" width="{length:.1f}" height="{BAR - 1}" fill="{COLORS[engine]}"/>'
    return [shape, text(x + length + 4, y + BAR - 2, f"{value:.2f}", size=9, bold=engine == "tenon")]
