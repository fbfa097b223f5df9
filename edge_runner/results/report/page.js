"use strict";

// Draws the figures that the page carries as data, in the colours of the reader's scheme.
const figures = JSON.parse(document.getElementById("figures").textContent);
const dark = matchMedia("(prefers-color-scheme: dark)");
const narrow = matchMedia("(max-width: 640px)");
const touch = matchMedia("(pointer: coarse)");

/** A copy of `value` in which colours named by a CSS variable (`--ink`) are what it stands for. */
function coloured(value, style, key) {
  if (Array.isArray(value)) return value.map((item) => coloured(item, style, key));
  if (value && typeof value === "object") {
    return Object.fromEntries(
      Object.entries(value).map(([name, item]) => [name, coloured(item, style, name)]),
    );
  }
  const isColour = /color$/.test(key || "") && typeof value === "string" && value.startsWith("--");
  return isColour ? style.getPropertyValue(value).trim() : value;
}

function axis(own, small) {
  return {
    gridcolor: "--line", linecolor: "--line", zeroline: false, automargin: true,
    tickfont: { color: "--muted", size: small ? 11 : 12 }, fixedrange: touch.matches,
    ...own,
    title: { standoff: 10, font: { color: "--muted", size: small ? 11 : 12 }, ...own.title },
  };
}

function layout(own, small) {
  const axes = Object.entries(own).filter(([name]) => /^[xy]axis/.test(name));
  return {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: "system-ui, sans-serif", color: "--ink", size: 13 },
    margin: { l: 8, r: small ? 4 : 12, t: 8, b: 8 },
    showlegend: false,
    hoverlabel: {
      align: "left", namelength: -1, bgcolor: "--card", bordercolor: "--line",
      font: { family: "system-ui, sans-serif", color: "--ink", size: small ? 11 : 12.5 },
    },
    dragmode: touch.matches ? false : "zoom",
    ...own,
    ...Object.fromEntries(axes.map(([name, value]) => [name, axis(value, small)])),
  };
}

function draw(figure) {
  const style = getComputedStyle(document.documentElement);
  const plot = document.getElementById("figure-" + figure.id);
  return Plotly.react(
    plot,
    coloured(figure.data, style),
    coloured(layout(figure.layout, narrow.matches), style),
    {
      responsive: true, displaylogo: false, displayModeBar: false, doubleClick: "reset",
    },
  );
}

async function drawAll() {
  for (const figure of figures) await draw(figure);
  document.documentElement.dataset.drawn = String(figures.length);
}

for (const query of [dark, narrow]) query.addEventListener("change", drawAll);
for (const when of ["beforeprint", "afterprint"]) addEventListener(when, drawAll);
drawAll();
