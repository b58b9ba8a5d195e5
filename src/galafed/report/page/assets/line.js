// Curves over rounds: a cursor that tells every value, by pointer or by the arrow keys; marked points.
function drawLine(plot, chart) {
  const redraw = () => drawLine(plot, chart);
  const { svg, width, height } = canvas(plot, 260);
  const pad = { left: 52, right: 14, top: 12, bottom: 36 };
  const visible = chart.series.map((s, index) => ({ ...s, index })).filter((s) => !off(chart.id).has(s.name));
  const points = visible.flatMap((s) => s.points);
  const marks = (chart.marks || []).filter((m) => !off(chart.id).has(m.series));
  const xs = [...new Set(chart.series.flatMap((s) => s.points.map((p) => p[0])))].sort((a, b) => a - b);
  const ys = points.map((p) => p[1]);
  const low = chart.low ?? Math.min(...ys, 0);
  const high = chart.high ?? (ys.length ? Math.max(...ys) * 1.08 || 1 : 1);
  const x = scale(xs[0], xs[xs.length - 1], pad.left, width - pad.right);
  const y = scale(low, high, height - pad.bottom, pad.top);
  for (const value of ticks(low, high, 5)) {
    make("line", { class: "grid", x1: pad.left, x2: width - pad.right, y1: y(value), y2: y(value) }, svg);
    make("text", { class: "tick", x: pad.left - 7, y: y(value) + 4, "text-anchor": "end" }, svg, tickText(value, chart.format));
  }
  const rounds = xs.length > 1 ? ticks(xs[0], xs[xs.length - 1], Math.min(8, width / 70)) : xs;
  for (const value of rounds.filter((v) => Number.isInteger(v))) {
    make("text", { class: "tick", x: x(value), y: height - pad.bottom + 16, "text-anchor": "middle" }, svg, value);
  }
  make("text", { class: "axis", x: (pad.left + width - pad.right) / 2, y: height - 4, "text-anchor": "middle" }, svg, chart.x);
  for (const s of visible) {
    const path = s.points.map((p, n) => `${n ? "L" : "M"}${x(p[0]).toFixed(1)} ${y(p[1]).toFixed(1)}`).join("");
    make("path", { class: "curve", d: path, stroke: colour(s.index), "stroke-dasharray": dash(s.index) }, svg);
    if (s.points.length < 40) {
      for (const p of s.points) make("circle", { cx: x(p[0]), cy: y(p[1]), r: 2.2, fill: colour(s.index) }, svg);
    }
  }
  marks.forEach((mark, number) => {
    make("circle", { class: `spot ${mark.kind}`, cx: x(mark.x), cy: y(mark.y), r: 6.5 }, svg);
    const end = x(mark.x) > width * 0.6;
    const dy = y(mark.y) > height * 0.5 ? -12 - 15 * number : 22 + 15 * number;
    make("text", { class: `spot-name ${mark.kind}`, x: x(mark.x) + (end ? 4 : -4), y: y(mark.y) + dy, "text-anchor": end ? "end" : "start" }, svg, mark.name);
  });
  const cursor = make("line", { class: "cursor", y1: pad.top, y2: height - pad.bottom, visibility: "hidden" }, svg);
  let place = xs.length - 1;
  const tell = (at, clientX, clientY) => {
    cursor.setAttribute("x1", x(at));
    cursor.setAttribute("x2", x(at));
    cursor.setAttribute("visibility", "visible");
    const rows = visible
      .map((s) => [s, s.points.find((p) => p[0] === at)])
      .filter(([, p]) => p)
      .sort((a, b) => b[1][1] - a[1][1])
      .map(([s, p]) => [`${s.name}: ${shown(p[1], chart.format)}`, colour(s.index)]);
    showTip([[`${chart.x} ${at}`, null], ...rows], clientX, clientY);
  };
  const leave = () => { cursor.setAttribute("visibility", "hidden"); hideTip(); };
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const here = (event.clientX - box.left) * (width / box.width);
    place = xs.reduce((best, value, n) => (Math.abs(x(value) - here) < Math.abs(x(xs[best]) - here) ? n : best), 0);
    if (xs.length) tell(xs[place], event.clientX, event.clientY);
  });
  svg.addEventListener("pointerleave", leave);
  plot.onkeydown = (event) => {
    if (event.target !== plot || !["ArrowLeft", "ArrowRight"].includes(event.key) || !xs.length) return;
    place = Math.max(0, Math.min(xs.length - 1, place + (event.key === "ArrowRight" ? 1 : -1)));
    const box = svg.getBoundingClientRect();
    tell(xs[place], box.left + (x(xs[place]) * box.width) / width, box.top + 40);
    event.preventDefault();
  };
  plot.onblur = leave;
  legend(plot, chart.id, chart.series.map((s) => s.name), redraw);
}
