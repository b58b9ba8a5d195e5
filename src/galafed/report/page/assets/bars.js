// Horizontal bars, stacked or side by side.
function drawBars(plot, chart) {
  const redraw = () => drawBars(plot, chart);
  const visible = chart.series.map((s, index) => ({ ...s, index })).filter((s) => !off(chart.id).has(s.name));
  const thick = chart.stacked || visible.length < 2 ? 20 : Math.max(8, 26 / visible.length);
  const step = (chart.stacked ? thick : thick * Math.max(1, visible.length)) + 8;
  const { svg, width, height } = canvas(plot, chart.names.length * step + 40);
  const longest = Math.max(...chart.names.map((n) => n.length), 1);
  const left = Math.min(width * 0.42, 12 + 7 * longest);
  const totals = chart.names.map((_, n) => (chart.stacked ? visible.reduce((sum, s) => sum + (s.values[n] || 0), 0) : Math.max(0, ...visible.map((s) => s.values[n] || 0))));
  const high = chart.high ?? (Math.max(...totals, 0) * 1.04 || 1);
  const x = scale(0, high, left, width - 26);
  for (const value of ticks(0, high, Math.min(6, (width - left) / 80))) {
    make("line", { class: "grid", x1: x(value), x2: x(value), y1: 4, y2: height - 30 }, svg);
    make("text", { class: "tick", x: x(value), y: height - 14, "text-anchor": "middle" }, svg, tickText(value, chart.format));
  }
  chart.names.forEach((name, n) => {
    const top = 6 + n * step;
    const letters = Math.floor((left - 12) / 6.6);
    make("text", { class: "tick", x: left - 7, y: top + (step - 8) / 2 + 4, "text-anchor": "end" }, svg, name.length > letters ? `${name.slice(0, letters - 1)}…` : name);
    let from = 0;
    visible.forEach((s, place) => {
      const value = s.values[n];
      if (value === null || value === undefined) return;
      const bar = make("rect", {
        class: "bar", x: x(from), y: chart.stacked ? top : top + place * thick,
        width: Math.max(1, x(from + value) - x(from)), height: thick - 2, fill: colour(s.index),
      }, svg);
      if (chart.stacked) from += value;
      bar.addEventListener("pointermove", (event) => showTip([[name, null], [`${s.name}: ${shown(value, chart.format)}`, colour(s.index)]], event.clientX, event.clientY));
      bar.addEventListener("pointerleave", hideTip);
    });
  });
  legend(plot, chart.id, chart.series.map((s) => s.name), redraw);
}
