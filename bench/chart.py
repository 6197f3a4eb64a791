#!/usr/bin/env python3
"""Draws the results of bench/peers.py as bars: share of the measured peak, reel beside each peer.

    python3 bench/chart.py build/bench/peers.json docs/peers.svg
"""

import json
import sys
from pathlib import Path
from xml.sax.saxutils import escape

BAR, GAP, LEFT, WIDTH, TOP = 13, 12, 270, 520, 58
COLOURS = {"reel": "#2b6cb0", "torch": "#dd6b20", "FlexAttention": "#b7791f", "OpenBLAS": "#718096"}


def colour(name):
    return next(value for key, value in COLOURS.items() if name.startswith(key))


def bars(rows):
    """Cases in order, each with [(who, share of peak)]."""
    cases = {}
    for row in rows:
        case, peer = row["case"].rsplit(" against ", 1)
        mine = row["share_of_peak"]
        cases.setdefault(case, [("reel", mine)]).append((peer, mine / row["speedup"]))
    return cases


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    result = json.loads(Path(sys.argv[1]).read_text())
    y, body = TOP, []
    for case, shares in bars(result["rows"]).items():
        body.append(f'<text x="{LEFT - 8}" y="{y + BAR * len(shares) / 2 + 4}" text-anchor="end">{escape(case)}</text>')
        for who, share in shares:
            body.append(f'<rect x="{LEFT}" y="{y}" width="{share * WIDTH:.1f}" height="{BAR - 2}" fill="{colour(who)}"/>')
            body.append(f'<text x="{LEFT + share * WIDTH + 5:.1f}" y="{y + BAR - 4}" class="small">{who} {share:.2f}</text>')
            y += BAR
        y += GAP
    machine = result["machine"]
    title = f"Share of the measured f32 peak, {machine['threads']} threads, torch {machine['torch'].split('+')[0]} ({machine['capability']})"
    height, right = y + 6, LEFT + WIDTH
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {right + 150} {height}" font-family="sans-serif" font-size="12">',
        "<style>.small{font-size:10px;fill:#4a5568}</style>",
        f'<rect width="{right + 150}" height="{height}" fill="white"/>',
        f'<text x="14" y="24" font-size="15" font-weight="bold">{escape(title)}</text>',
    ]
    for tenth in range(0, 11, 2):
        x = LEFT + WIDTH * tenth / 10
        lines.append(f'<line x1="{x}" y1="{TOP - 6}" x2="{x}" y2="{height - 10}" stroke="#e2e8f0"/>')
        lines.append(f'<text x="{x}" y="{TOP - 10}" text-anchor="middle" class="small">{tenth / 10:.1f}</text>')
    Path(sys.argv[2]).write_text("\n".join(lines + body + ["</svg>"]) + "\n")


if __name__ == "__main__":
    main()
