// A table of numbers as coloured cells.
function drawHeat(plot, chart) {
  const rows = chart.rows.length;
  const columns = chart.columns.length;
  const longest = Math.max(...chart.rows.map((r) => r.length), 1);
  const room = Math.max(260, Math.floor(plot.clientWidth));
  const left = Math.min(room * 0.34, 12 + 7 * longest);
  const side = Math.max(15, Math.min(72, (room - left - 10) / columns));
  const high = Math.max(17, Math.min(side, 34));
  const longTop = Math.max(...chart.columns.map((c) => c.length), 1);
  const turned = longTop * 7 > side - 4;
  const top = turned ? Math.min(96, 14 + 6.2 * longTop * 0.75) + 16 : 34;
  const width = Math.max(room, left + side * columns + 10);
  const height = top + high * rows + 24;
  plot.replaceChildren();
  const svg = make("svg", { viewBox: `0 0 ${width} ${height}`, width, height, "aria-hidden": "true" }, plot);
  make("text", { class: "axis", x: left, y: 11 }, svg, chart.columns_title);
  chart.columns.forEach((name, n) => {
    const at = left + side * (n + 0.5);
    const turn = turned ? { transform: `rotate(-40 ${at} ${top - 6})`, "text-anchor": "start" } : { "text-anchor": "middle" };
    make("text", { class: "tick", x: at, y: top - 6, ...turn }, svg, name.length > 16 ? `${name.slice(0, 15)}…` : name);
  });
  const numbers = chart.values.flat().filter((v) => v !== null);
  const middle = chart.middle ?? null;  // where there is one, colours part there: below it, and above
  const low = middle ?? chart.low ?? Math.min(...numbers);
  const most = chart.high ?? Math.max(...numbers.map((v) => (middle === null ? v : low + Math.abs(v - low))));
  chart.values.forEach((row, r) => {
    const name = chart.rows[r];
    const letters = Math.floor((left - 10) / 6.6);
    make("text", { class: "tick", x: left - 6, y: top + high * (r + 0.5) + 4, "text-anchor": "end" }, svg, name.length > letters ? `${name.slice(0, letters - 1)}…` : name);
    row.forEach((value, c) => {
      const away = value === null ? 0 : (value - low) / (most - low || 1);
      const share = Math.max(0, Math.min(1, middle === null ? away : Math.abs(away)));
      const hue = middle !== null && away < 0 ? "var(--below)" : "var(--heat)";
      const cell = make("rect", {
        class: "cell", x: left + side * c, y: top + high * r, width: side - 1, height: high - 1,
        fill: value === null ? "transparent" : `color-mix(in oklab, ${hue} ${(100 * share).toFixed(0)}%, var(--cold))`,
      }, svg);
      const text = value === null ? "" : cellText(value, chart.cell);
      if (text.length * 7 < side + 2 && high >= 16) {
        make("text", { class: `in-cell ${share > 0.55 ? "on-heat" : ""}`, x: left + side * (c + 0.5) - 0.5, y: top + high * (r + 0.5) + 4, "text-anchor": "middle" }, svg, text);
      }
      const tell = (event) => showTip([[`${chart.rows_title} ${name}`, null], [`${chart.columns_title} ${chart.columns[c]}`, null], [shown(value, chart.format), null]], event.clientX, event.clientY);
      cell.addEventListener("pointermove", tell);
      cell.addEventListener("pointerleave", hideTip);
    });
  });
  make("text", { class: "axis", x: left, y: height - 6 }, svg, `rows: ${chart.rows_title}`);
}

// Short enough for a cell.
function cellText(value, format) {
  if (format === "percent") return String(Math.round(100 * value));
  if (format === "whole") return String(value);
  return format === "points" || format === "signed" ? shown(value, format) : value.toFixed(2);
}
