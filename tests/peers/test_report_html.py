# SPDX-License-Identifier: Apache-2.0
"""The HTML report in a real browser: it sorts, switches and moves, in light and dark, without an error."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import h5py
import pytest

from conftest import ROOT
from devtools import Page, chromium

SAMPLE = ROOT / "data/smollm2_sample.h5"
BINARY = Path(os.environ.get("SO4CAL_BINARY", ROOT / "build/dev/so4cal"))
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [pytest.mark.skipif(CHROMIUM is None, reason="no chromium on PATH: run app/setup.sh"),
              pytest.mark.skipif(not BINARY.exists(), reason=f"{BINARY} is not there; set SO4CAL_BINARY")]


def so4cal(*args: object) -> None:
    subprocess.run([str(BINARY), *map(str, args)], check=True, capture_output=True, timeout=600)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    assert CHROMIUM is not None
    with chromium(CHROMIUM, tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("table") / "table.so4.h5"
    so4cal("fit", SAMPLE, "-o", path, "--max-iterations", 3, "--rounding", "nearest", "--objective", "mse")
    return path


@pytest.fixture(scope="module")
def sample_report(table: Path) -> Path:
    path = table.with_name("sample.html")
    so4cal("report", table, SAMPLE, "-o", path)
    return path


def data_of(report: Path) -> dict:
    match = re.search(r'id="data">(.*?)</script>', report.read_text(encoding="utf-8"), re.DOTALL)
    assert match is not None
    return json.loads(match[1])


def resized(report: Path, layers: int, heads: int, name: str) -> Path:
    """The page of a model of this shape: heads of the sample's report again and again."""
    data = data_of(report)
    sources = {side: [i for i, h in enumerate(data["report"]["heads"]) if h["side"] == side] for side in "kv"}
    out, channels = [], []
    for layer in range(layers):
        for side in "kv":
            for head in range(heads):
                source = sources[side][(layer * heads + head) % len(sources[side])]
                out.append({**data["report"]["heads"][source], "layer": layer, "kv_head": head})
                channels.append(data["channels"][source])
    data["report"]["heads"], data["channels"] = out, channels
    text = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    path = report.with_name(name)
    path.write_text(re.sub(r'(id="data">).*?(</script>)', lambda m: m[1] + text + m[2], report.read_text(encoding="utf-8"), flags=re.DOTALL),
                    encoding="utf-8")
    return path


def column(page: Page, label: str) -> list[str]:
    return page.run(f"""(() => {{
      const i = [...document.querySelectorAll('#heads thead th')].findIndex(th => th.textContent === {json.dumps(label)});
      return [...document.querySelectorAll('#heads tbody tr')].map(tr => tr.cells[i].textContent);
    }})()""")


def press_header(page: Page, label: str) -> str:
    """Enter on the header's button, as without a mouse; returns aria-sort."""
    find = f"[...document.querySelectorAll('#heads thead button')].find(b => b.textContent === {json.dumps(label)})"
    page.run(f"{find}.focus()")
    page.press("Enter", 13)
    return page.run(f"{find}.closest('th').getAttribute('aria-sort')")


def test_table_sorts_both_ways(page: Page, sample_report: Path) -> None:
    page.open(sample_report)
    before = column(page, "calibrated")
    assert press_header(page, "calibrated") == "ascending"
    assert [float(v) for v in column(page, "calibrated")] == sorted(float(v) for v in before)
    assert press_header(page, "calibrated") == "descending"
    assert [float(v) for v in column(page, "calibrated")] == sorted((float(v) for v in before), reverse=True)
    # Values have no attention KL: they stay last in both directions.
    for expected in ["ascending", "descending"]:
        assert press_header(page, "KL calibrated") == expected
        column_now = column(page, "KL calibrated")
        assert column_now[-6:] == ["–"] * 6 and "–" not in column_now[:6]
    assert page.run("document.querySelectorAll('#heads th[aria-sort=none]').length") > 5
    assert page.errors == []


def test_metric_switches(page: Page, sample_report: Path) -> None:
    page.open(sample_report)
    legend = page.run("document.getElementById('legends').textContent")
    cells = "[...document.querySelectorAll('#maps svg rect.cell')].map(r => r.getAttribute('fill')).join()"
    before = page.run(cells)
    page.run("(s => { s.value = 'attention_kl'; s.dispatchEvent(new Event('change')); })(document.getElementById('metric'))")
    assert page.run(cells) != before
    assert page.run("document.getElementById('legends').textContent") != legend
    title = page.run("document.querySelector('#maps svg rect.cell title').textContent")
    head = data_of(sample_report)["report"]["heads"][0]
    assert float(title.split(": ")[1]) == pytest.approx(head["errors"]["hadamard"]["attention_kl"], rel=1e-3)
    # Values don't touch attention: three maps of six cells without a figure.
    assert page.run("document.querySelectorAll('#maps svg rect.cell.missing').length") == 18
    assert page.errors == []


def test_arrow_keys_choose_a_head(page: Page, sample_report: Path) -> None:
    page.open(sample_report)
    page.run("document.querySelector('#maps svg').focus()")
    page.press("ArrowDown", 40)
    page.press("ArrowRight", 39)
    assert page.run("document.getElementById('h-head').textContent") == "One head: layer 15, k head 1"
    assert page.run("document.activeElement.tagName") == "svg"
    assert page.run("document.querySelectorAll('#channels svg rect').length") == 2 * 64
    assert page.run("document.querySelectorAll('#heads tr.chosen').length") == 1
    assert page.errors == []


def test_dark_light_and_print(page: Page, sample_report: Path) -> None:
    page.open(sample_report)
    ground = {}
    for scheme in ["light", "dark"]:
        page.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        ground[scheme] = page.run("getComputedStyle(document.body).backgroundColor")
    assert ground == {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 23, 28)"}
    page.command("Emulation.setEmulatedMedia", media="print", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    assert page.run("getComputedStyle(document.body).backgroundColor") == ground["light"]
    assert page.run("getComputedStyle(document.querySelector('.tall')).maxHeight") == "none"
    page.command("Emulation.setEmulatedMedia", media="", features=[])
    assert page.run("performance.getEntriesByType('resource').length") == 0  # one file, no network
    assert page.errors == []


@pytest.mark.parametrize(("layers", "heads"), [(1, 1), (80, 8)])
def test_sizes(page: Page, sample_report: Path, layers: int, heads: int) -> None:
    path = resized(sample_report, layers, heads, f"{layers}x{heads}.html")
    page.open(path)
    assert page.run("document.querySelectorAll('#heads tbody tr').length") == 2 * layers * heads
    assert page.run("document.querySelectorAll('#maps rect.cell').length") == 6 * layers * heads
    # Nothing but the tables in their own frames is wider than the window.
    assert page.run("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0
    assert press_header(page, "layer") == "ascending"
    assert page.errors == []


def test_dump_without_queries(page: Page, table: Path) -> None:
    bare, report = table.with_name("bare.h5"), table.with_name("bare.html")
    with h5py.File(SAMPLE) as full, h5py.File(bare, "w") as out:
        out.attrs.update(full.attrs)
        full.copy("sequence_starts", out)
        for layer, group in full["layers"].items():
            for name in "kv":
                full.copy(group[name], out.require_group(f"layers/{layer}"), name)
                out[f"layers/{layer}/{name}"].attrs.update(group[name].attrs)
    so4cal("report", table, bare, "-o", report)
    page.open(report)
    assert "the dump has no q" in page.run("document.getElementById('notes').textContent")
    metrics = page.run("[...document.getElementById('metric').options].map(o => o.value)")
    assert "nmse" in metrics and not any(word in metric for metric in metrics for word in ["logit", "attention", "output"])
    assert "KL calibrated" not in page.run("document.querySelector('#heads thead').textContent")
    assert page.errors == []
