"""The style sheet of the report: one column, light or dark as the reader prefers, fit for printing."""

STYLE = """
:root { --ink: #1d2329; --soft: #5b6570; --rule: #d9dee3; --paper: #ffffff; --shade: #f4f6f8; --accent: #0072b2;
  --good: #00795a; --bad: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e8ec; --soft: #9aa5b1; --rule: #39424c; --paper: #14181d;
  --shade: #1d232a; --accent: #56b4e9; --good: #4cc79f; --bad: #ff8a7a; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
main { max-width: 62rem; margin: 0 auto; padding: 2.5rem 1.25rem 4rem; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 0.5rem; letter-spacing: -0.01em; }
h2 { font-size: 1.2rem; margin: 2.5rem 0 0.75rem; padding-bottom: 0.3rem; border-bottom: 1px solid var(--rule); }
.lead { color: var(--soft); margin: 0 0 1.25rem; white-space: pre-line; }
.verdict { list-style: none; margin: 1.25rem 0; padding: 0.75rem 1rem; background: var(--shade); border-radius: 8px; }
.verdict li { padding: 0.15rem 0 0.15rem 1.5rem; position: relative; }
.verdict li::before { position: absolute; left: 0; content: "\\2022"; color: var(--soft); }
.verdict .good::before { content: "\\2713"; color: var(--good); font-weight: 700; }
.verdict .bad { color: var(--bad); font-weight: 600; }
.verdict .bad::before { content: "\\2717"; color: var(--bad); font-weight: 700; }
.note { color: var(--soft); font-size: 0.92rem; border-left: 3px solid var(--rule); padding-left: 0.8rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 0.92rem; }
th, td { text-align: left; vertical-align: top; padding: 0.45rem 0.75rem 0.45rem 0;
  border-bottom: 1px solid var(--rule); }
thead th { color: var(--soft); font-weight: 600; vertical-align: bottom; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
thead .number { white-space: normal; }
.formula { min-width: 14rem; }
.best { background: var(--shade); font-weight: 600; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 0.35rem 1.25rem; margin: 0; }
dt { color: var(--soft); } dd { margin: 0; } dd ul { margin: 0; padding-left: 1.1rem; }
math { font-size: 1.1em; }
code, pre { font-family: ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; font-size: 0.86rem; }
pre { background: var(--shade); padding: 0.9rem 1rem; border-radius: 8px; overflow-x: auto; line-height: 1.45; }
pre.wrapped { white-space: pre-wrap; overflow-wrap: anywhere; }
.mark { color: var(--accent); border: 1px solid var(--accent); border-radius: 0.6rem; padding: 0 0.45rem;
  font-size: 0.78rem; font-weight: 600; white-space: nowrap; }
details { margin-top: 0.35rem; } summary { cursor: pointer; color: var(--accent); font-size: 0.88rem; }
figure { margin: 1.75rem 0; } figcaption { color: var(--soft); font-size: 0.9rem; margin-top: 0.4rem; }
img { display: block; max-width: 100%; margin: 0 auto; background: #ffffff; border-radius: 8px; padding: 0.5rem; }
footer { margin-top: 3rem; padding-top: 0.75rem; border-top: 1px solid var(--rule); color: var(--soft);
  font-size: 0.88rem; }
@media print { :root { --ink: #000000; --soft: #444444; --rule: #bbbbbb; --paper: #ffffff; --shade: #f6f6f6;
    --good: #005f46; --bad: #9c1f18; }
  body { font-size: 10.5pt; } main { max-width: none; padding: 0; } pre { white-space: pre-wrap; }
  figure, tr, pre { break-inside: avoid; } h2 { break-after: avoid; } .wide { overflow: visible; } }
"""
