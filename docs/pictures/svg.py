"""Draws what a terminal shows (text with colour sequences, on standard input) as an SVG picture.

    svg.py COLUMNS < screen > picture.svg
"""

import re
import sys
from xml.sax.saxutils import escape

WIDTH, HEIGHT, SIZE, MARGIN = 8.4, 18, 14, 14
BACKGROUND, FOREGROUND = "#16181d", "#d7dae0"
COLOURS = [
    "#3b3f4a", "#e5636a", "#86bf6b", "#d8a657", "#6ba4e8", "#c586d8", "#5fb8b5", "#c3c7cf",
    "#6b7280", "#ff8087", "#a3d988", "#f0c674", "#8fbcff", "#dba2ee", "#7fd6d2", "#ffffff",
]


def indexed(number):
    """The colour of the 256 of a terminal."""
    if number < 16:
        return COLOURS[number]
    if number > 231:
        return "#" + f"{8 + 10 * (number - 232):02x}" * 3
    steps = [0, 95, 135, 175, 215, 255]
    number -= 16
    return "#" + "".join(f"{steps[part]:02x}" for part in (number // 36, number // 6 % 6, number % 6))


def changed(style, codes):
    """The style after a colour sequence."""
    style = dict(style)
    codes = [int(code or 0) for code in codes.split(";")]
    while codes:
        code = codes.pop(0)
        if code == 0:
            style = {}
        elif code in (1, 2, 3, 4, 7):
            style[code] = True
        elif code in (22, 23, 24, 27):
            for off in {22: (1, 2), 23: (3,), 24: (4,), 27: (7,)}[code]:
                style.pop(off, None)
        elif code in (38, 48):
            kind, rest = codes[0], codes[1:]
            is_index = kind == 5
            style[code] = indexed(rest[0]) if is_index else "#" + "".join(f"{part:02x}" for part in rest[:3])
            codes = rest[1 if is_index else 3:]
        elif code in (39, 49):
            style.pop(code - 1, None)
        else:
            for first, key, offset in ((30, 38, 0), (40, 48, 0), (90, 38, 8), (100, 48, 8)):
                if first <= code < first + 8:
                    style[key] = COLOURS[code - first + offset]
    return style


def drawn(row, column, text, style):
    """A piece of a line in one style."""
    x, y, width = MARGIN + column * WIDTH, MARGIN + row * HEIGHT, len(text) * WIDTH
    colour, behind = style.get(38, FOREGROUND), style.get(48)
    if 7 in style:
        colour, behind = behind or BACKGROUND, colour
    if behind:
        yield f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{HEIGHT}" fill="{behind}"/>'
    look = ' font-weight="bold"' if 1 in style else ""
    look += ' opacity="0.6"' if 2 in style else ""
    look += ' font-style="italic"' if 3 in style else ""
    look += ' text-decoration="underline"' if 4 in style else ""
    # Each part has its place and its length, so that columns are in line whatever font is there. SVG drops other spaces.
    for part in re.finditer(r"\S+( \S+)*", text):
        left, length = x + part.start() * WIDTH, len(part.group()) * WIDTH
        yield (
            f'<text x="{left:.1f}" y="{y + 13.5}" fill="{colour}" textLength="{length:.1f}"{look}>'
            f"{escape(part.group())}</text>"
        )


def main():
    columns = int(sys.argv[1])
    lines = sys.stdin.read().rstrip("\n").split("\n")
    picture, style = [], {}
    for row, line in enumerate(lines):
        column = 0
        for index, part in enumerate(re.split(r"\x1b\[([0-9;]*)m", line)):
            if index % 2:
                style = changed(style, part)
            elif part:
                picture += drawn(row, column, part, style)
                column += len(part)
    width, height = columns * WIDTH + 2 * MARGIN, len(lines) * HEIGHT + 2 * MARGIN
    print(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'font-family="ui-monospace, DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="{SIZE}">'
        f'\n<rect width="100%" height="100%" rx="8" fill="{BACKGROUND}"/>'
    )
    print("\n".join(picture))
    print("</svg>")


main()
