// A map of points in one or two panels, coloured by one of several properties; groups can be switched off.
function drawScatter(plot, chart) {
  const redraw = () => drawScatter(plot, chart);
  const by = chosen.get(chart.id) || Object.keys(chart.colour_by)[0];
  const groups = chart.colour_by[by].names;
  const member = chart.colour_by[by].of;
  const gone = off(`${chart.id}/${by}`);
  plot.replaceChildren();
  const choice = make("div", { class: "choice", role: "group", "aria-label": "Colour by" }, plot);
  choice.append("Colour by ");
  for (const name of Object.keys(chart.colour_by)) {
    const button = make("button", { type: "button", "aria-pressed": String(name === by) }, choice, name);
    button.addEventListener("click", () => { chosen.set(chart.id, name); redraw(); });
  }
  const panels = make("div", { class: "panels" }, plot);
  const holders = chart.panels.map((panel) => {
    const holder = make("div", { class: "panel" }, panels);
    make("div", { class: "panel-name" }, holder, panel.name);
    return holder;
  });
  chart.panels.forEach((panel, number) => {
    const holder = holders[number]; // all are there before one is measured
    const side = Math.max(240, Math.floor(holder.clientWidth));
    const svg = make("svg", { viewBox: `0 0 ${side} ${side}`, width: side, height: side, "aria-hidden": "true" }, holder);
    make("rect", { class: "frame", x: 0.5, y: 0.5, width: side - 1, height: side - 1 }, svg);
    const xs = panel.points.map((p) => p[0]);
    const ys = panel.points.map((p) => p[1]);
    const x = scale(Math.min(...xs), Math.max(...xs), 10, side - 10);
    const y = scale(Math.min(...ys), Math.max(...ys), side - 10, 10);
    panel.points.forEach((point, n) => {
      if (gone.has(groups[member[n]])) return;
      const dot = { class: "dot", fill: colour(member[n]) };
      const target = chart.emphasis && chart.emphasis[n];
      const shape = target
        ? make("path", { ...dot, d: `M${x(point[0])} ${y(point[1]) - 5}l5 5l-5 5l-5 -5z`, class: "dot target" }, svg)
        : make("circle", { ...dot, cx: x(point[0]), cy: y(point[1]), r: 3 }, svg);
      shape.addEventListener("pointermove", (event) => showTip(Object.entries(chart.colour_by).map(([key, group]) => [`${key}: ${group.names[group.of[n]]}`, null]), event.clientX, event.clientY));
      shape.addEventListener("pointerleave", hideTip);
    });
  });
  legend(plot, `${chart.id}/${by}`, groups, redraw);
}
