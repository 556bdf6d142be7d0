/* Draws `data-mcp-chart="line"` and `"bar"`; the points are JSON in `data-mcp-points`, and texts only ever text. */
(() => {
  "use strict";
  const HEIGHT = 240, DASHES = [[], [8, 4], [2, 3]], COLORS = ["--mcp-accent", "--mcp-good", "--mcp-danger", "--mcp-muted"];
  const drawn = new Map(), root = document.documentElement;
  const language = root.lang || undefined, number = new Intl.NumberFormat(language, { notation: "compact" });
  /* Days and moments come without a zone, as the server shows them. */
  const day = new Intl.DateTimeFormat(language, { timeZone: "UTC", day: "numeric", month: "short", year: "2-digit" });
  const clock = new Intl.DateTimeFormat(language, { timeZone: "UTC", timeStyle: "short" });
  const cut = (label) => label.length > 14 ? `${label.slice(0, 13)}\u2026` : label;
  const widthOf = (element) => Math.max(element.clientWidth, 160);

  /* The bars of several series stand side by side, from the left edge of each. */
  const barsOf = (xs, index, count, step) => {
    const width = 0.8 * step / count, edges = xs.map((x) => x + (index - count / 2) * width);
    return uPlot.paths.bars({ disp: { x0: { unit: 1, values: () => edges }, size: { unit: 1, values: () => xs.map(() => width) } } });
  };
  function draw(element) {
    drawn.get(element)?.destroy();
    const { isTime, label, labels, x, series } = JSON.parse(element.dataset.mcpPoints);
    const isBar = element.dataset.mcpChart === "bar", xs = isTime ? x : labels.map((_label, index) => index);
    const style = getComputedStyle(root), css = (name) => style.getPropertyValue(name).trim();
    const step = xs.slice(1).reduce((least, at, index) => Math.min(least, at - xs[index] || least), Infinity);
    const room = Number.isFinite(step) ? step : isTime ? 86400 : 1;
    const line = { stroke: css("--mcp-line"), width: 1 };
    const axis = { stroke: css("--mcp-text"), font: `12px ${css("--mcp-font")}`, grid: line, ticks: line };
    const show = (texts) => (_plot, _value, _series, index) => texts[index] ?? "\u2013";
    const times = (_plot, splits, _axis, _space, incr) => splits.map((at) => (incr >= 86400 ? day : clock).format(at * 1000));
    const names = (_plot, splits) => splits.map((at) => Number.isInteger(at) ? cut(labels[at] ?? "") : "");
    drawn.set(element, new uPlot({
      width: widthOf(element), height: HEIGHT, padding: [null, 32, null, null], cursor: { drag: { x: false, y: false } },
      tzDate: (at) => uPlot.tzDate(new Date(at * 1000), "Etc/UTC"),
      scales: {
        x: { time: isTime, range: (_plot, low, high) => isBar || low === high ? [low - room / 2, high + room / 2] : [low, high] },
        y: { range: (_plot, low, high) => [1.1 * Math.min(0, low ?? 0), 1.1 * Math.max(0, high ?? 0) || 1] },
      },
      series: [{ label, value: show(labels) }, ...series.map((each, index) => {
        const stroke = css(COLORS[index % COLORS.length]), turn = Math.floor(index / COLORS.length);
        const own = { label: each.label, stroke, width: 2, value: show(each.shown) };
        return isBar ? { ...own, points: { show: false }, fill: turn ? css("--mcp-raised") : stroke, paths: barsOf(xs, index, series.length, room) }
          : { ...own, points: { show: true, size: 6, fill: css("--mcp-back") }, dash: DASHES[turn % DASHES.length] };
      })],
      axes: [
        { ...axis, values: isTime ? times : names, space: 90, ...(isTime ? {} : { incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500] }) },
        { ...axis, size: 56, values: (_plot, splits) => splits.map((each) => number.format(each)) },
      ],
    }, [xs, ...series.map(({ values }) => values)], element));
  }
  const sizes = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      const plot = drawn.get(target), width = widthOf(target);
      if (plot && plot.width !== width) plot.setSize({ width, height: HEIGHT });
    }
  });
  function drawNew() {
    for (const [element, plot] of drawn)
      if (!element.isConnected) { plot.destroy(); sizes.unobserve(element); drawn.delete(element); }
    for (const element of document.querySelectorAll("[data-mcp-chart]"))
      if (!drawn.has(element)) { draw(element); sizes.observe(element); }
  }
  addEventListener("mcp:swapped", drawNew);
  /* Another theme has other colours. */
  addEventListener("mcp:context", () => { for (const element of drawn.keys()) draw(element); });
  if (document.readyState === "loading") addEventListener("DOMContentLoaded", drawNew);
  else drawNew();
})();
