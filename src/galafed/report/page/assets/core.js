"use strict";
// What every chart needs: elements, scales, ticks, the tooltip, a legend whose entries can be switched off.
const SVG = "http://www.w3.org/2000/svg";
const COLOURS = 10;
const hidden = new Map(); // chart id -> names of series that are switched off; survives a redraw
const chosen = new Map(); // chart id -> what a scatter plot is coloured by

function make(tag, attributes = {}, parent = null, text = null) {
  const html = ["div", "button", "span", "ul", "li", "table", "tr", "td", "th"].includes(tag);
  const element = html ? document.createElement(tag) : document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== null) element.textContent = text;
  if (parent) parent.append(element);
  return element;
}

const colour = (index) => `var(--c${index % COLOURS})`;
// Beyond ten series colours come again: curves are then dashed, and their marks striped.
const swatch = (index) => (index < COLOURS ? colour(index) : `repeating-linear-gradient(45deg, ${colour(index)} 0 3px, transparent 3px 5px)`);
const dash = (index) => ["", "6 3", "2 3", "8 3 2 3"][Math.floor(index / COLOURS) % 4];

function off(id) {
  if (!hidden.has(id)) hidden.set(id, new Set());
  return hidden.get(id);
}

function scale(from, to, low, high) {
  const span = to - from || 1;
  return (value) => low + ((value - from) / span) * (high - low);
}

function ticks(low, high, count) {
  const span = high - low || 1;
  const rough = span / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough);
  const found = [];
  for (let value = Math.ceil(low / step - 1e-9) * step; value <= high + step * 1e-6; value += step) {
    found.push(Math.abs(value) < step * 1e-6 ? 0 : value);
  }
  return found;
}

function shown(value, format) {
  if (value === null || value === undefined) return "–";
  if (format === "percent") return `${(100 * value).toFixed(1)} %`;
  if (format === "bytes") {
    const units = ["B", "kB", "MB", "GB", "TB"];
    let unit = 0;
    while (Math.abs(value) >= 1000 && unit < units.length - 1) { value /= 1000; unit += 1; }
    return `${unit ? value.toFixed(2) : value} ${units[unit]}`;
  }
  if (format === "seconds") return `${value.toFixed(value < 1 ? 3 : 2)} s`;
  if (format === "whole") return String(Math.round(value));
  if (format === "points") return value.toFixed(1);
  if (format === "signed") {
    const tenths = Math.round(10 * value) / 10 || 0;  // a zero has no minus
    return `${tenths < 0 ? "" : "+"}${tenths.toFixed(1)}`;
  }
  return Math.abs(value) >= 100 ? value.toFixed(0) : value.toFixed(3);
}

function tickText(value, format) {
  if (format === "percent") return `${Math.round(100 * value)} %`;
  if (format === "bytes") return shown(value, format).replace(/\.00 /, " ");
  return String(+value.toPrecision(6));
}

const tip = () => document.getElementById("tip");

function showTip(rows, x, y) {
  const box = tip();
  box.replaceChildren();
  for (const [text, mark] of rows) {
    const line = make("div", {}, box);
    if (mark) make("span", { class: "mark", style: `background:${mark}` }, line);
    line.append(text);
  }
  box.hidden = false;
  const { width, height } = box.getBoundingClientRect();
  const right = document.documentElement.clientWidth;
  box.style.left = `${Math.max(4, Math.min(x + 14, right - width - 4)) + window.scrollX}px`;
  box.style.top = `${(y - height - 12 < 0 ? y + 18 : y - height - 12) + window.scrollY}px`;
}

function hideTip() { tip().hidden = true; }

function canvas(plot, height) {
  const width = Math.max(260, Math.floor(plot.clientWidth));
  plot.replaceChildren();
  const svg = make("svg", { viewBox: `0 0 ${width} ${height}`, width, height, "aria-hidden": "true" }, plot);
  return { svg, width, height };
}

function legend(plot, id, names, redraw, mark = swatch) {
  if (names.length < 2) return;
  const list = make("ul", { class: "legend", "aria-label": "Series; press to hide or show" }, plot);
  names.forEach((name, index) => {
    const item = make("li", {}, list);
    const button = make("button", { type: "button", "aria-pressed": String(!off(id).has(name)) }, item);
    make("span", { class: "mark", style: `background:${mark(index)}` }, button);
    button.append(name);
    button.addEventListener("click", () => {
      const set = off(id);
      if (set.has(name)) set.delete(name); else set.add(name);
      redraw();
      [...plot.querySelectorAll(".legend button")][index].focus();
    });
    button.addEventListener("dblclick", () => {
      const set = off(id);
      set.clear();
      names.filter((other) => other !== name).forEach((other) => set.add(other));
      redraw();
    });
  });
}
