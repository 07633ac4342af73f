"use strict";
// Draws the panels of the page. Every array is in the page once; a slider, a menu or a key cuts another slice out of it.
(() => {
const page = JSON.parse(document.getElementById("contents").textContent);
const TYPES = {f4: Float32Array, f8: Float64Array, i4: Int32Array};
const UNITS = {layer: "layers", time: "time units", "1/time": "1/time unit", token: "tokens"};
const AT_THE_END = ["time", "step", "epoch", "depth"];  // sliders that begin with the last entry
const DIVERGING = [[0, "#2166ac"], [.25, "#92c5de"], [.5, "#fbfbfb"], [.75, "#f4a582"], [1, "#b2182b"]];
const INK = "#1b1f24", GRID = "#e5e7eb", NOTHING = "#c9ced6";  // the last: no number
const MARKED = 40;      // points of a curve that get markers
const PICTURES = 6;     // side by side at first
const FEW = 12;         // places on an axis that all get a tick
const DECADES = 1.5;    // span of values from which their scale is logarithmic at first
const LATTICE = page.prefix;
const TOKENS = new Set(page.tokens);
const TAIL = 3;         // colours end where few numbers lie beyond, if the largest is so many times larger
const RANGE = "range";  // place on an axis of seeds: mean of all, with the range

// ---- numbers

const decoded = new Map();
function numbers(place) {
  if (!decoded.has(place)) {
    const block = document.getElementById("a" + place), text = atob(block.textContent), bytes = new Uint8Array(text.length);
    for (let k = 0; k < text.length; k++) bytes[k] = text.charCodeAt(k);
    decoded.set(place, new TYPES[block.dataset.kind](bytes.buffer));
    block.remove();  // the text is not needed twice
  }
  return decoded.get(place);
}

function written(value) {
  if (Number.isNaN(value)) return "NaN (no number)";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  const text = Number.isInteger(value) && Math.abs(value) < 1e15 ? String(value) : String(Number(value.toPrecision(6)));
  return text.replace(/-/g, "−");
}

const inUnit = unit => unit ? ` ${UNITS[unit] || unit}` : "";
const inBrackets = unit => unit ? `  [${UNITS[unit] || unit}]` : "";
const spoken = name => name.replace(/_/g, " ");

for (const panel of page.panels) for (const series of panel.series) {
  let step = 1;
  for (const axis of [...series.axes].reverse()) {
    axis.length = numbers(axis.values).length;
    axis.step = step;
    step *= axis.length;
  }
}
const coordinates = axis => numbers(axis.values);
const axisOf = (series, name) => series.axes.find(axis => axis.name === name);

// The entry of an axis at a coordinate: that one if entries are things, the nearest if they are places; -1: none. Places reach half a step beyond their ends.
function entry(axis, value) {
  const values = coordinates(axis);
  if (!axis.entries) axis.entries = new Map(Array.from(values, (one, k) => [one, k]).reverse());  // the first of equal ones
  if (axis.entries.has(value)) return axis.entries.get(value);
  if (axis.exact || !reaches(values, value)) return -1;
  let best = 0;
  for (let k = 1; k < values.length; k++) if (!(Math.abs(values[best] - value) <= Math.abs(values[k] - value))) best = k;
  return best;
}
function reaches(values, value) {
  const sorted = finite(values).sort((a, b) => a - b), last = sorted.length - 1;
  if (last < 0) return false;
  const rounded = 1e-6 * Math.max(Math.abs(sorted[0]), Math.abs(sorted[last]));  // coordinates are held in single precision
  const below = last ? (sorted[1] - sorted[0]) / 2 : 0, above = last ? (sorted[last] - sorted[last - 1]) / 2 : 0;
  return value >= sorted[0] - below - rounded && value <= sorted[last] + above + rounded;
}

// What the entry of an axis of a series is called at a coordinate; empty if it has a number alone. `places` choose among the names of several samples.
function nameIn(series, name, value, places) {
  const axis = axisOf(series, name);
  if (!axis || !axis.names.length) return "";
  let {names} = axis;
  if (axis.by) {
    const by = axisOf(series, axis.by);
    names = (by && names[axis.by in places ? entry(by, places[axis.by]) : 0]) || [];
  }
  return names[entry(axis, value)] || "";
}

const extents = new Map();
function extent(series) {
  if (!extents.has(series.array)) {
    let low = Infinity, high = -Infinity, least = Infinity;
    for (const value of numbers(series.array)) if (Number.isFinite(value)) {
      if (value < low) low = value;
      if (value > high) high = value;
      if (value > 0 && value < least) least = value;
    }
    extents.set(series.array, {low, high, least});
  }
  return extents.get(series.array);
}

// The numbers of a series along `free` axes with all others that have a place at `places`: mean, lowest and highest over axes at the place RANGE. null: not there.
function cut(series, free, places) {
  const data = numbers(series.array);
  let starts = [0];
  for (const axis of series.axes) {
    if (free.includes(axis.name) || !(axis.name in places)) continue;  // without a place: one entry, the same in all series
    if (places[axis.name] === RANGE) {
      starts = starts.flatMap(start => Array.from({length: axis.length}, (_, k) => start + k * axis.step));
    } else {
      const k = entry(axis, places[axis.name]);
      if (k < 0) return null;
      starts = starts.map(start => start + k * axis.step);
    }
  }
  const axes = free.map(name => axisOf(series, name)), [one, two] = [axes[0], axes[1]];
  const lengths = axes.map(axis => axis ? axis.length : 1), count = lengths.reduce((a, b) => a * b, 1);
  const mean = new Float64Array(count), low = new Float64Array(count), high = new Float64Array(count);
  for (let k = 0; k < count; k++) {
    const inner = lengths.length > 1 ? lengths[1] : 1;
    const at = (one ? Math.floor(k / inner) * one.step : 0) + (two ? (k % inner) * two.step : 0);
    let sum = 0, least = Infinity, most = -Infinity;
    for (const start of starts) {
      const value = data[start + at];
      sum += value;
      least = Math.min(least, value);  // NaN stays NaN
      most = Math.max(most, value);
    }
    mean[k] = sum / starts.length;
    low[k] = least;
    high[k] = most;
  }
  return {values: mean, low, high, lengths, of: starts.length};
}

// ---- elements

function element(kind, attributes = {}, ...children) {
  const made = document.createElement(kind);
  for (const [name, value] of Object.entries(attributes)) {
    if (name in made && typeof value !== "string") made[name] = value; else made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}
const option = (value, text) => element("option", {value}, text);

const SHAPES = {circle: "M15 4a4 4 0 1 0 .01 0", square: "M11 4h8v8h-8z", diamond: "M15 3l5 5-5 5-5-5z", "triangle-up": "M15 3l5 9h-10z", "triangle-down": "M15 13l5-9h-10z",
                x: "M11 4l8 8M19 4l-8 8", cross: "M15 3v10M10 8h10", pentagon: "M15 3l5 4-2 6h-6l-2-6z"};
const DASHED = {solid: "", dash: "7 4", dot: "2 3", dashdot: "7 3 2 3", longdash: "11 3", longdashdot: "11 3 2 3"};
function swatch(series) {
  const text = `<svg width="30" height="16" aria-hidden="true"><path d="M0 8h30" stroke="${series.colour}" stroke-width="2.5" stroke-dasharray="${DASHED[series.dash]}"
    opacity="${series.light ? .45 : 1}"/><path d="${SHAPES[series.symbol]}" fill="${series.colour}" stroke="${series.colour}" opacity="${series.light || !series.axes.length ? 0 : 1}"/></svg>`;
  return document.createRange().createContextualFragment(text);
}

const tip = document.getElementById("tip");
function showTip(text, x, y) {
  tip.textContent = text;
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  tip.style.left = Math.max(4, Math.min(x + 14, window.innerWidth - box.width - 4)) + "px";
  tip.style.top = (y + 18 + box.height < window.innerHeight ? y + 18 : Math.max(4, y - box.height - 12)) + "px";
}

// ---- a panel

class Panel {
  constructor(panel) {
    this.panel = panel;
    this.axes = new Map();  // of all series: coordinates of all, in rising order if entries are places
    for (const series of panel.series) for (const axis of series.axes) {
      const known = this.axes.get(axis.name);
      if (!known) this.axes.set(axis.name, {...axis, values: Array.from(coordinates(axis))});
      else {
        const held = new Set(known.values), more = Array.from(coordinates(axis)).filter(value => !held.has(value));
        known.values.push(...more);
        if (!known.exact) known.values.sort((a, b) => a - b);
        known.lattice = known.lattice || axis.lattice;
      }
    }
    for (const axis of this.axes.values()) this.compareNames(axis);
    this.across = panel.across;
    this.up = panel.up;
    if (this.isLattice() && !this.axes.get(this.free()[0]).lattice) [this.across, this.up] = [this.free()[0], ""];  // thinned out
    this.places = {};
    this.own = panel.alone === null ? !this.isPicture() : panel.alone;
    this.logarithmic = panel.logarithmic;
    this.shown = panel.series.map((_, k) => !this.isPicture() || k < PICTURES);
    this.at = [0, 0, 0];  // picture or curve, and the point in it
    this.told = null;       // the series of that point, if it is told below the picture
    this.build();
  }

  isPicture() { return this.up !== "" || this.across.startsWith(LATTICE); }
  isMatrix() { return page.pairs.some(([across, up]) => across === this.across && up === this.up); }  // rows from the top
  isPairs() { return this.isMatrix() && TOKENS.has(this.up); }
  isLattice() { return this.across.startsWith(LATTICE); }
  free() { return this.isLattice() ? [this.across.slice(LATTICE.length)] : this.up ? [this.up, this.across] : [this.across]; }

  // Whether any series has names for the entries of an axis, and whether all that have these entries agree on them.
  compareNames(axis) {
    const held = this.panel.series.map(series => axisOf(series, axis.name)).filter(Boolean), called = new Map();
    axis.named = held.some(one => one.names.length);
    axis.by = (held.find(one => one.by) || axis).by;
    axis.agreed = axis.named;
    if (held.length < 2 || !axis.named) return;
    for (const series of this.panel.series) {
      const own = axisOf(series, axis.name), by = axis.by && axisOf(series, axis.by);
      if (!own || (!own.names.length && !own.exact)) continue;  // a place without a name is told by its number
      for (const other of by ? coordinates(by) : [0]) for (const value of coordinates(own)) {
        const key = other + " " + value, name = nameIn(series, axis.name, value, {[axis.by]: other});
        if (called.has(key) && called.get(key) !== name) axis.agreed = false;
        called.set(key, name);
      }
    }
  }
  // What an entry is called by the file of a series; of no series: by all files, if they agree.
  nameOf(axis, value, places = this.places, series = null) {
    if (places === this.places && this.free().includes(axis.by)) return "";  // several samples in one picture
    if (series) return nameIn(series, axis.name, value, places);
    if (!axis.agreed) return "";
    for (const one of this.panel.series) {
      const name = nameIn(one, axis.name, value, places);
      if (name) return name;
    }
    return "";
  }
  entryText(axis, value, places = this.places, series = null) {
    const name = this.nameOf(axis, value, places, series);
    if (name) return TOKENS.has(axis.name) ? `${written(value)} “${name}”` : name;
    return written(value) + inUnit(axis.unit);
  }

  build() {
    const {panel} = this;
    this.controls = element("div", {class: "controls"});
    this.sliders = element("div", {class: "controls"});
    this.plot = element("div", {class: "plot", tabindex: "0", role: "group", "aria-label": `${panel.title}: picture; the arrow keys read its numbers`});
    this.marker = element("div", {class: "marker", hidden: true});
    this.beside = element("div", {class: "beside"});
    this.readout = element("output", {class: "readout"}, "");
    this.note = element("p", {class: "left-out blank"});
    this.legend = element("div", {class: "legend"});
    const stored = panel.leftOut.length ? `Thinned out to fit into the page: ${panel.leftOut.join("; ")}.` : "";
    this.root = element("section", {class: "panel", "data-key": panel.key},
      element("h3", {}, panel.title), element("p", {class: "what"}, panel.what), this.controls, this.sliders, this.plot, this.legend, this.readout, this.beside,
      this.note, element("p", {class: "left-out thinned"}, stored), element("details", {class: "axes"}, element("summary", {}, `/${panel.key}`),
        ...[...this.axes.values()].map(axis => element("div", {}, `${spoken(axis.name)}: ${axis.what || "number of the entry"}`))));
    this.plot.addEventListener("keydown", event => this.key(event));
    this.plot.addEventListener("mouseleave", () => { tip.hidden = true; });
    this.plot.addEventListener("blur", () => { tip.hidden = true; });
    this.buildControls();
    this.buildSliders();
    this.buildLegend();
  }

  buildControls() {
    const long = [...this.axes.values()].filter(axis => axis.length > 1 || axis.values.length > 1);
    const across = element("select", {"data-role": "across"}, ...long.flatMap(axis => [option(axis.name, spoken(axis.name)),
      ...(axis.lattice ? [option(LATTICE + axis.name, `${spoken(axis.name).replace(/([^aeiou])y$/, "$1ie")}s as a picture`)] : [])]));
    const up = element("select", {"data-role": "up"}, option("", "the numbers (curves)"), ...long.map(axis => option(axis.name, spoken(axis.name))));
    across.addEventListener("change", () => {
      if (across.value === this.up) this.up = long.length > 1 ? this.across : "";
      this.across = across.value;
      if (this.isLattice() || this.up.startsWith(LATTICE)) this.up = "";
      this.again();
    });
    up.addEventListener("change", () => {
      if (up.value === this.across) this.across = this.up || long.map(axis => axis.name).find(name => name !== up.value);
      this.up = up.value;
      this.again();
    });
    const box = (role, change) => {
      const input = element("input", {type: "checkbox", "data-role": role});
      input.addEventListener("change", () => { change(input.checked); this.draw(); });
      return input;
    };
    const log = box("log", on => { this.logarithmic = on; }), own = box("own", on => { this.own = on; });
    const upright = element("label", {}, "up", up), alone = element("label", {}, own, "scale of this picture alone");
    if (long.length > 1 || long.some(axis => axis.lattice)) this.controls.append(element("label", {}, "Across", across));
    if (long.length > 1) this.controls.append(upright);
    this.controls.append(element("label", {}, log, "logarithmic"), alone);
    if (this.logarithmic === null) this.logarithmic = this.spans();
    this.setControls = () => {
      across.value = this.across;
      up.value = this.isLattice() ? "" : this.up;
      log.checked = this.logarithmic;
      own.checked = this.own;
      upright.hidden = this.isLattice();
      alone.hidden = long.length <= this.free().length;
    };
    this.setControls();
  }

  spans() {  // whether the values of all series are positive and span decades
    const all = this.panel.series.map(extent);
    const low = Math.min(...all.map(one => one.low)), high = Math.max(...all.map(one => one.high));
    return low > 0 && Math.log10(high / low) > DECADES;
  }

  again() {
    this.own = !this.isPicture();
    if (this.isPicture() && this.shown.filter(Boolean).length > PICTURES) this.shown = this.shown.map((_, k) => k < PICTURES);
    this.tellNothing();
    this.setControls();  // the same menus: whoever types into one goes on
    this.buildSliders();
    this.buildLegend();
    this.draw();
  }

  buildSliders() {
    this.sliders.replaceChildren();
    const free = this.free();
    for (const axis of this.axes.values()) {
      if (free.includes(axis.name)) continue;
      const {values} = axis;
      if (values.length === 1) {
        if (axis.exact && !TOKENS.has(axis.name)) this.sliders.append(element("span", {class: "soft"}, `${spoken(axis.name)} ${this.entryText(axis, values[0])}`));
        continue;
      }
      const seeds = axis.name === "seed";
      if (!(axis.name in this.places)) {
        this.places[axis.name] = seeds && !this.isPicture() ? RANGE : values[AT_THE_END.includes(axis.name) ? values.length - 1 : 0];
      }
      if (seeds || (axis.agreed && !TOKENS.has(axis.name) && values.length <= 60)) {
        const menu = element("select", {"data-axis": axis.name}, ...(seeds ? [option(RANGE, `mean and range of ${values.length}`)] : []),
          ...values.map((value, k) => option(String(k), this.entryText(axis, value))));
        menu.value = this.places[axis.name] === RANGE ? RANGE : String(values.indexOf(this.places[axis.name]));
        menu.addEventListener("change", () => { this.places[axis.name] = menu.value === RANGE ? RANGE : values[Number(menu.value)]; this.draw(); });
        this.sliders.append(element("label", {}, spoken(axis.name), menu));
      } else {
        const slider = element("input", {type: "range", min: "0", max: String(values.length - 1), step: "1", "data-axis": axis.name});
        const text = element("output", {});
        const tell = () => {
          const said = this.entryText(axis, this.places[axis.name]);
          text.textContent = said;
          slider.setAttribute("aria-valuetext", said);
        };
        slider.value = String(values.indexOf(this.places[axis.name]));
        slider.addEventListener("input", () => { this.places[axis.name] = values[Number(slider.value)]; tell(); this.draw(); });
        tell();
        axis.tell = tell;
        this.sliders.append(element("label", {class: "slider"}, spoken(axis.name), slider, text));
      }
    }
  }

  buildLegend() {
    this.legend.replaceChildren();
    if (this.panel.series.length < 2) return;
    this.panel.series.forEach((series, k) => {
      const button = element("button", {type: "button", "aria-pressed": String(this.shown[k])}, ...(this.isPicture() ? [] : [swatch(series)]), series.label);
      button.addEventListener("click", () => {
        this.shown[k] = !this.shown[k];
        button.setAttribute("aria-pressed", String(this.shown[k]));
        this.draw();
      });
      this.legend.append(button);
    });
  }

  // ---- drawing

  // One drawing after the other: what is asked for meanwhile is drawn once, at the end.
  draw() {
    this.root.dataset.state = "drawing";
    if (this.busy) { this.stale = true; return; }
    this.busy = true;
    this.drawNow().then(() => "drawn", failure => { this.failed(failure); return "failed"; }).then(state => {
      this.busy = false;
      if (this.gone) Plotly.purge(this.plot);
      else if (this.stale) { this.stale = false; this.draw(); }
      else this.root.dataset.state = state;
    });
  }

  remove() {
    this.gone = true;
    this.root.remove();
    if (!this.busy) Plotly.purge(this.plot);
  }

  async drawNow() {
    for (const axis of this.axes.values()) if (axis.by && axis.tell) axis.tell();
    const free = this.free();
    this.drawn = [];
    const absent = [];
    this.panel.series.forEach((series, k) => {
      if (!this.shown[k]) return;
      const drawable = !this.isPicture() || free.every(name => axisOf(series, name) && (!this.isLattice() || axisOf(series, name).lattice));
      const found = drawable ? cut(series, free, this.places) : null;
      if (found) this.drawn.push({series, ...found}); else absent.push(series.label);
    });
    tip.hidden = true;
    this.root.classList.toggle("broad", this.isPicture() && this.drawn.length > 1);
    const {traces, layout} = this.isPicture() ? this.pictures() : this.curves();
    Object.assign(layout, {font: {family: getComputedStyle(document.body).fontFamily, size: 12, color: INK}, hovermode: "closest", showlegend: false, dragmode: "zoom",
      paper_bgcolor: "#fff", uirevision: this.across + "|" + this.up, width: this.plot.clientWidth});
    this.tellAnew();
    const first = !this.plot.classList.contains("js-plotly-plot");
    await Plotly.react(this.plot, traces, layout, {displaylogo: false, modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"]});
    if (first) {
      this.plot.on("plotly_hover", event => this.hover(event));
      this.plot.on("plotly_relayout", () => { this.marker.hidden = true; });
    }
    this.plot.append(this.marker);
    this.marker.hidden = true;
    this.notes(absent);
    this.showBeside();
  }

  failed(failure) {
    console.error(failure);
    this.drawn = [];
    this.tellNothing();
    this.beside.replaceChildren();
    this.note.textContent = `This picture could not be drawn: ${failure.message}.`;
  }

  notes(absent) {
    const said = [];
    let nan = 0, infinite = 0, negative = 0;
    for (const one of this.drawn) for (const value of one.values) {
      if (Number.isNaN(value)) nan++; else if (!Number.isFinite(value)) infinite++; else if (this.logarithmic && value <= 0) negative++;
    }
    const blank = this.isPicture() ? "grey" : "left out";
    if (nan) said.push(`${nan} without a number (NaN)`);
    if (infinite) said.push(`${infinite} infinite`);
    if (negative) said.push(`${negative} not above 0, for which a logarithmic scale has no place`);
    const elsewhere = this.drawn.flatMap(({series}) => series.axes.filter(axis => !axis.exact && !this.free().includes(axis.name) && Number.isFinite(this.places[axis.name])).map(axis => {
      const own = written(coordinates(axis)[entry(axis, this.places[axis.name])]);
      return own === written(this.places[axis.name]) ? "" : `${series.label} at ${spoken(axis.name)} ${own}`;
    })).filter(Boolean);
    const ended = this.isPicture() && this.ended ? `Colours end at ${written(this.ended)}; 1 in 100 numbers lies beyond.` : "";
    this.note.textContent = [ended, said.length ? `In this picture ${blank}: ${said.join(", ")}.` : "", elsewhere.length ? `The nearest: ${elsewhere.join(", ")}.` : "",
      absent.length ? `Not here: ${absent.join(", ")}.` : ""].join(" ").trim();
  }

  axisLayout(axis, title, room = this.plot.clientWidth - 80, series = null) {  // room: pixels along the axis; series: whose picture
    const common = {title: {text: title, standoff: 8}, gridcolor: GRID, linecolor: "#8b95a1", zeroline: false, automargin: true, ticks: "outside", tickcolor: "#8b95a1", exponentformat: "power"};
    if (!axis) return common;
    const spots = this.spotsOf(axis, series ? [series] : this.drawn.map(one => one.series));
    if (this.byNumber(axis)) {
      const every = Math.max(1, Math.ceil(spots.length * 15 / room)), shown = spots.filter((_, k) => k % every === 0);
      Object.assign(common, {tickvals: shown, ticktext: shown.map(k => plain(this.nameOf(axis, axis.values[k], this.places, series).slice(0, 18)) || written(axis.values[k]))});
    } else if (spots.length <= FEW && this.haveRoom(spots, room, axis.name === this.up)) Object.assign(common, {tickvals: spots});
    return common;
  }
  longest(axis) {  // letters of the longest name of all pictures
    return Math.max(0, ...axis.named ? this.drawn.flatMap(one => axis.values.map(value => this.nameOf(axis, value, this.places, one.series).slice(0, 18).length)) : []);
  }
  narrow() { return this.plot.clientWidth < 480; }
  title(axis) { return spoken(axis.name) + inBrackets(axis.unit); }
  // Entries with names, and numbers of things that lie anywhere (samples 5, 8, 730), are drawn one beside the other.
  byNumber(axis) {
    const {values} = axis;
    return axis.named || (axis.exact && (this.isPicture() || ["sample", "example"].includes(axis.name)) && values.some((value, k) => k && value - values[k - 1] !== values[1] - values[0]));
  }
  // Where an entry of a series is drawn: at its coordinate, or at its number among the others.
  spots(axis, series) {
    const own = axisOf(series, axis.name), values = Array.from(coordinates(own));
    return this.byNumber(axis) ? values.map(value => axis.values.indexOf(value)) : values;
  }
  // The spots of all these series, in rising order; of no series that has the axis: of all.
  spotsOf(axis, these) {
    const held = these.filter(series => axisOf(series, axis.name)), those = held.length ? held : this.panel.series.filter(series => axisOf(series, axis.name));
    return [...new Set(those.flatMap(series => finite(this.spots(axis, series))))].sort((a, b) => a - b);
  }
  // Whether the numbers of all spots have room beside, or above, each other.
  haveRoom(spots, room, upright) {
    const scale = room / (spots[spots.length - 1] - spots[0]), half = spots.map(spot => upright ? 8 : 3 + 3.8 * written(spot).length);
    return spots.every((spot, k) => !k || (spot - spots[k - 1]) * scale >= half[k - 1] + half[k]);
  }
  range() {  // of all places of the sliders, for what is drawn
    const all = this.drawn.map(one => extent(one.series));
    return {low: Math.min(...all.map(one => one.low)), high: Math.max(...all.map(one => one.high)), least: Math.min(...all.map(one => one.least))};
  }

  curves() {
    const axis = this.axes.get(this.across), traces = [];
    const spots = this.spotsOf(axis, this.drawn.map(one => one.series)), ends = [spots[0], spots[spots.length - 1]];
    this.traces = [];
    this.drawn.forEach((one, k) => {
      const {series} = one, everywhere = !axisOf(series, this.across);
      one.x = everywhere ? ends : this.spots(axis, series);
      const y = everywhere ? [one.values[0], one.values[0]] : Array.from(one.values);
      const plotted = values => Array.from(values, value => this.logarithmic && value <= 0 ? NaN : value);
      if (one.of > 1 && !everywhere) {
        const band = {x: one.x, mode: "lines", line: {width: 0}, hoverinfo: "skip", type: "scatter"};
        traces.push({...band, y: plotted(one.low)}, {...band, y: plotted(one.high), fill: "tonexty", fillcolor: series.colour + "22"});
        this.traces.push(k, k);
      }
      traces.push({type: "scatter", x: one.x, y: plotted(y), name: series.label, hoverinfo: "none", opacity: series.light ? .35 : 1,
        mode: everywhere || series.light || one.x.length > MARKED ? "lines" : "lines+markers", line: {color: series.colour, dash: series.dash, width: series.light ? 1 : 2},
        marker: {symbol: series.symbol, size: 7, color: series.colour}});
      this.traces.push(k);
    });
    const xaxis = this.axisLayout(axis, this.title(axis)), yaxis = this.axisLayout(null, this.panel.label + inBrackets(this.panel.unit));
    if (this.logarithmic) {
      const shown = this.drawn.flatMap(one => finite(one.values)).filter(value => value > 0), decades = shown.length ? Math.log10(Math.max(...shown) / Math.min(...shown)) : 0;
      Object.assign(yaxis, {type: "log", dtick: decades < .5 ? undefined : decades < 2 ? "D2" : Math.ceil(decades / 6), tickformat: decades >= .5 && decades < 2 ? "~g" : ""});
    }
    if (!this.own && this.drawn.length) {
      const {low, high, least} = this.range(), [bottom, top] = this.logarithmic ? [Math.log10(least), Math.log10(high)] : [low, high], pad = .04 * (top - bottom || 1);
      yaxis.range = [bottom - pad, top + pad];
    }
    return {traces, layout: {xaxis, yaxis, height: this.narrow() ? 300 : 340, margin: {l: 62, r: 14, t: 28, b: 48}, plot_bgcolor: "#fff"}};
  }

  pictures() {
    const free = this.free(), lattice = this.isLattice();
    const acrossAxis = this.axes.get(free[free.length - 1]), upAxis = this.axes.get(free[0]);
    const both = this.isMatrix() && this.drawn.every(({lengths: [tall, wide]}) => tall === wide);
    this.ended = 0;
    let low = Infinity, high = -Infinity, least = Infinity;
    if (this.own) {
      for (const one of this.drawn) for (const value of one.values) if (Number.isFinite(value)) {
        low = Math.min(low, value); high = Math.max(high, value);
        if (value > 0) least = Math.min(least, value);
      }
    } else ({low, high, least} = this.range());
    const logarithmic = this.logarithmic && high > 0, colour = {colorscale: "Viridis", colorbar: {thickness: 12, outlinewidth: 0, x: 1, xanchor: "left", xpad: 8, ypad: 0,
      exponentformat: "power", title: {text: UNITS[this.panel.unit] || this.panel.unit, side: "right"}, tickfont: {size: 11}}};
    if (logarithmic) {
      [low, high] = [Math.log10(least), Math.log10(high)];
      const span = high - low, ticks = [];
      for (let decade = Math.floor(low); decade <= Math.ceil(high); decade++) for (const part of span < .7 ? [1, 1.2, 1.5, 2, 3, 4, 5, 6, 8] : span < 3 ? [1, 2, 5] : [1]) {
        const tick = decade + Math.log10(part);
        if (tick >= low - 1e-9 && tick <= high + 1e-9 && (span < 8 || decade % 2 === 0)) ticks.push(tick);
      }
      Object.assign(colour.colorbar, {tickvals: ticks, ticktext: ticks.map(power)});
    } else if (low < 0 && high > 0) {
      const most = this.colourEnd(Math.max(-low, high));
      [low, high] = [-most, most];
      colour.colorscale = DIVERGING;
    }
    else high = this.colourEnd(high);
    if (!(high > low)) [low, high] = Number.isFinite(low) ? [low - .5, low + .5] : [0, 1];
    this.colours = {low, high, logarithmic, diverging: colour.colorscale === DIVERGING};
    const layout = {coloraxis: {...colour, cmin: low, cmax: high}, annotations: [], plot_bgcolor: NOTHING};
    const places = this.arrange(layout, acrossAxis, upAxis, lattice, both);
    this.traces = this.drawn.map((_, k) => k);
    const traces = this.drawn.map((one, k) => {
      const own = k ? String(k + 1) : "", {series} = one;
      const [tall, wide] = lattice ? [axisOf(series, acrossAxis.name).lattice[1], axisOf(series, acrossAxis.name).lattice[0]] : one.lengths;
      one.wide = wide;
      one.tall = tall;
      one.x = lattice ? Array.from({length: wide}, (_, x) => x) : this.spots(acrossAxis, series);
      one.y = lattice ? Array.from({length: tall}, (_, y) => y) : this.spots(upAxis, series);
      const z = Array.from({length: tall}, (_, i) => Array.from({length: wide}, (_, j) => {
        const value = one.values[i * wide + j];
        return !Number.isFinite(value) ? null : logarithmic ? (value > 0 ? Math.log10(value) : null) : value;
      }));
      const xaxis = lattice ? {visible: false} : this.axisLayout(acrossAxis, this.title(acrossAxis), places[k].wide, series);
      const yaxis = lattice ? {visible: false} : this.axisLayout(upAxis, this.title(upAxis), places[k].high, series);
      if (lattice || this.isMatrix()) yaxis.autorange = "reversed";
      Object.assign(xaxis, {showgrid: false, automargin: false, domain: places[k].x, anchor: "y" + own});
      Object.assign(yaxis, {showgrid: false, automargin: false, domain: places[k].y, anchor: "x" + own});
      if (acrossAxis.named && !lattice) xaxis.tickangle = this.longest(acrossAxis) > 3 ? -90 : 0;
      layout["xaxis" + own] = xaxis;
      layout["yaxis" + own] = yaxis;
      if (this.panel.series.length > 1) layout.annotations.push({text: `<b>${this.wrapped ? plain(series.label).replace(/^(.*)(, |: )/, "$1$2<br>") : plain(series.label)}</b>`, showarrow: false, xref: `x${own} domain`, yref: `y${own} domain`, x: .5, y: 1, yanchor: "bottom", xanchor: "center"});
      return {type: "heatmap", x: one.x, y: one.y, z, coloraxis: "coloraxis", hoverinfo: "none", xaxis: "x" + own, yaxis: "y" + own, hoverongaps: true};
    });
    return {traces, layout};
  }

  // The largest size that colours tell apart: a few numbers far beyond all others would leave one colour to these.
  colourEnd(most) {
    const sizes = this.own ? this.drawn.flatMap(one => Array.from(one.values)) : this.drawn.flatMap(({series}) => {
      const data = numbers(series.array), every = Math.ceil(data.length / 20000);
      return Array.from({length: Math.floor(data.length / every)}, (_, k) => data[k * every]);
    });
    const sorted = finite(sizes).map(Math.abs).sort((a, b) => a - b), end = sorted[Math.floor(.99 * sorted.length)];
    if (!(end > 0) || most < TAIL * end) return most;
    this.ended = Number(end.toPrecision(2));
    return this.ended;
  }

  // Places of pictures side by side, in parts of the plot, whose margins and height are set: lattices and pairs of tokens are not distorted.
  arrange(layout, acrossAxis, upAxis, lattice, both) {
    const count = Math.max(1, this.drawn.length), width = this.plot.clientWidth;
    const letters = axis => lattice || this.longest(axis) < 4 ? 22 : 14 + 6.4 * this.longest(axis);
    const left = lattice ? 6 : 34 + letters(upAxis), below = lattice ? 8 : 28 + letters(acrossAxis), right = this.panel.unit ? 78 : 66, top = 30;
    const least = lattice ? 130 : 190, gap = lattice ? 14 : left + 8;
    const columns = Math.max(1, Math.min(count, Math.floor((width - left - right + gap) / (least + gap)))), rows = Math.ceil(count / columns);
    const inner = (width - left - right - gap * (columns - 1)) / columns;
    this.wrapped = this.drawn.some(one => one.series.label.length * 7.2 > inner);
    const heading = this.panel.series.length > 1 ? (this.wrapped ? 40 : 24) : 0;
    const first = this.drawn[0], own = first && axisOf(first.series, acrossAxis.name);
    const aspect = lattice && own ? own.lattice[1] / own.lattice[0] : both ? 1 : 0;
    const high = aspect ? Math.min(inner * aspect, lattice ? 300 : 430) : this.narrow() ? 210 : 260, wide = aspect ? high / aspect : inner;
    const step = high + heading + (lattice ? 8 : below + 6), full = rows * step - (lattice ? 8 : below + 6);
    Object.assign(layout, {height: top + full + below, margin: {l: left, r: width - left - columns * wide - gap * (columns - 1), t: top, b: below, autoexpand: false}});
    Object.assign(layout.coloraxis.colorbar, {lenmode: "pixels", len: Math.min(full - heading, 330), y: 1 - heading / full, yanchor: "top"});
    const across = columns * wide + gap * (columns - 1);
    return this.drawn.map((_, k) => {
      const x = (k % columns) * (wide + gap), y = Math.floor(k / columns) * step + heading;
      return {x: [x / across, (x + wide) / across], y: [1 - (y + high) / full, 1 - y / full], wide, high};
    });
  }

  // ---- reading numbers

  hover(event) {
    const point = event.points[0], curve = this.traces[point.curveNumber];
    const [i, j] = Array.isArray(point.pointNumber) ? point.pointNumber : [0, point.pointNumber];
    this.point(curve, i, j, event.event);
  }

  describe(one, i, j) {
    const {series} = one, parts = this.panel.series.length > 1 ? [series.label] : [];
    const here = {...this.places};
    [[this.up, i], [this.across, j]].forEach(([name, k]) => { if (axisOf(series, name)) here[name] = coordinates(axisOf(series, name))[k]; });
    const at = (name, k) => {
      const own = axisOf(series, name), axis = this.axes.get(name);
      if (own) parts.push(`${spoken(name)} ${this.entryText(axis, coordinates(own)[k], here, series)}`);
    };
    for (const axis of series.axes) {
      if (this.free().includes(axis.name) || !(axis.name in this.places)) continue;
      const place = this.places[axis.name];
      if (place === RANGE) parts.push(`mean over ${axis.length} ${spoken(axis.name)}s`); else at(axis.name, entry(axis, place));
    }
    let k = j;
    if (this.isLattice()) {
      k = i * one.wide + j;
      at(this.free()[0], k);
      parts.push(`column ${j}, row ${i}`);
    } else if (this.up) {
      k = i * one.wide + j;
      at(this.up, i);
      at(this.across, j);
    } else if (axisOf(series, this.across)) at(this.across, j); else k = 0;
    const value = one.values[k];
    const band = one.of > 1 && !this.isPicture() ? ` (${written(one.low[k])} to ${written(one.high[k])})` : "";
    return {parts, value: written(value) + inUnit(this.panel.unit) + band};
  }

  // Below the picture: the number at `at`.
  tell() {
    const [curve, i, j] = this.at, {parts, value} = this.describe(this.drawn[curve], i, j);
    this.readout.textContent = [...parts, value].join(" · ");
    this.readout.dataset.value = value;
    return {parts, value};
  }

  // In a new picture: the number at the same point of the same series, if it is there.
  tellAnew() {
    const [, i, j] = this.at, curve = this.drawn.findIndex(one => one.series === this.told), one = this.drawn[curve];
    if (one && (this.isPicture() ? i < one.tall && j < one.wide : j < one.x.length)) {
      this.at = [curve, i, j];
      this.tell();
    } else this.tellNothing();
  }
  tellNothing() {
    this.at = [0, 0, 0];
    this.told = null;
    this.readout.textContent = this.readout.dataset.value = "";
  }

  point(curve, i, j, mouse) {
    const one = this.drawn[curve];
    if (!one) return;
    this.at = [curve, i, j];
    this.told = one.series;
    const {parts, value} = this.tell();
    const full = this.plot._fullLayout, own = this.isPicture() && curve ? String(curve + 1) : "", x = full["xaxis" + own], y = full["yaxis" + own];
    const box = this.plot.getBoundingClientRect();
    if (mouse && mouse.clientX !== undefined) {
      this.marker.hidden = true;
      showTip([value, ...parts].join("\n"), mouse.clientX, mouse.clientY);
    } else {
      const middle = [x._offset + x.c2p(one.x[j]), y._offset + y.c2p(this.isPicture() ? one.y[i] : this.logarithmic ? one.values[j] : one.values[axisOf(one.series, this.across) ? j : 0])];
      if (middle.every(Number.isFinite)) {
        Object.assign(this.marker.style, {left: middle[0] - 6 + "px", top: middle[1] - 6 + "px", width: "12px", height: "12px"});
        this.marker.hidden = false;
        showTip([value, ...parts].join("\n"), box.left + middle[0], box.top + middle[1]);
      }
    }
    this.showBeside();
  }

  key(event) {
    const moves = {ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [1, 0], ArrowDown: [-1, 0]};
    if (event.key === "Escape") { tip.hidden = this.marker.hidden = true; return; }
    if (!(event.key in moves) || event.ctrlKey || event.altKey || event.metaKey || !this.drawn.length) return;
    event.preventDefault();
    let [curve, i, j] = this.at;
    let [up, right] = moves[event.key];
    const upsideDown = this.isLattice() || this.isMatrix();
    if (this.isPicture()) {
      if (upsideDown) up = -up;
      i += up;
      j += right;
      const one = this.drawn[curve];
      if (j >= one.wide && curve + 1 < this.drawn.length) { curve++; j = 0; }  // on to the picture beside it
      if (j < 0 && curve > 0) { curve--; j = this.drawn[curve].wide - 1; }
      i = Math.max(0, Math.min(i, this.drawn[curve].tall - 1));
      j = Math.max(0, Math.min(j, this.drawn[curve].wide - 1));
    } else {
      curve = (curve - up + this.drawn.length) % this.drawn.length;
      j = Math.max(0, Math.min(j + right, this.drawn[curve].x.length - 1));
    }
    this.point(curve, i, j);
  }

  // The picture of the sample that tokens come from, with one of them outlined; null if the page does not have it.
  sampleOf(series, axis, token) {
    const held = page.pictures[axis.pictures], by = axisOf(series, "sample");
    if (!held || !axis.lattice || this.free().includes("sample")) return null;
    const k = by ? entry(by, this.places.sample) : 0;
    if (!(k in held.pixels)) return null;
    const text = atob(held.pixels[k]), canvas = element("canvas", {width: held.wide, height: held.tall}), [columns, rows] = axis.lattice;
    const image = canvas.getContext("2d").createImageData(held.wide, held.tall);
    for (let pixel = 0; pixel < held.wide * held.tall; pixel++) {
      for (let colour = 0; colour < 3; colour++) image.data[4 * pixel + colour] = text.charCodeAt(held.colours * pixel + colour % held.colours);
      image.data[4 * pixel + 3] = 255;
    }
    canvas.getContext("2d").putImageData(image, 0, 0);
    const place = (cells, which) => `${100 * which / cells}%`;
    const outline = element("i", {style: `left: ${place(columns, token % columns)}; top: ${place(rows, Math.floor(token / columns))}; width: ${place(columns, 1)}; height: ${place(rows, 1)}`});
    return element("div", {class: "sample", role: "img", "aria-label": `the picture that the tokens come from, token ${token} outlined`}, canvas, outline);
  }

  // One row of a picture of pairs of tokens, as the lattice that the tokens come from, or as their words; and the picture itself.
  showBeside() {
    this.beside.replaceChildren();
    const [curve, i, column] = this.at, one = this.drawn[curve];
    if (!one || i >= one.tall) return;
    if (this.isLattice()) {
      const own = axisOf(one.series, this.free()[0]), sample = this.sampleOf(one.series, own, i * own.lattice[0] + column);
      if (sample) this.beside.append("What went in, the token outlined", sample);
    }
    if (!this.isPairs()) return;
    const axis = this.axes.get(this.across), upAxis = this.axes.get(this.up), own = axisOf(one.series, this.across), {lattice} = own;
    if (!lattice && !own.names.length) return;
    const row = Array.from({length: one.wide}, (_, j) => one.values[i * one.wide + j]);
    const finiteRow = finite(row), most = Math.max(...finiteRow.map(Math.abs), 1e-300), signed = finiteRow.some(value => value < 0);
    const colourOf = value => !Number.isFinite(value) ? NOTHING : signed ? shade(DIVERGING, .5 + .5 * value / most) : shade(VIRIDIS, value / most);
    const heading = `${this.panel.series.length > 1 ? one.series.label + ": " : ""}row of ${spoken(this.up)} ${this.entryText(upAxis, coordinates(axisOf(one.series, this.up))[i], this.places, one.series)}, outlined; its largest is ${written(most)}`;
    let cells;
    if (lattice) {
      cells = element("div", {class: "cells", role: "img", "aria-label": heading, style: `grid-template-columns: repeat(${lattice[0]}, auto)`},
        ...row.map((value, j) => element("i", {class: j === i ? "own" : "", title: `${spoken(this.across)} ${j}: ${written(value)}`, style: `background: ${colourOf(value)}`})));
    } else {
      cells = element("div", {class: "words"}, ...row.map((value, j) => {
        const colour = signed ? shade(DIVERGING, .5 + .5 * value / most) : shade(WORDS, value / most);
        return element("span", {class: j === i ? "own" : "", title: written(value), style: `background: ${colour}; color: ${dark(colour) ? "#fff" : INK}`}, this.nameOf(axis, coordinates(own)[j], this.places, one.series) || "·");
      }));
    }
    const sample = this.sampleOf(one.series, own, i);
    this.beside.append(heading, ...(sample ? [element("div", {class: "both"}, cells, sample)] : [cells]));
  }
}

const VIRIDIS = [[0, "#440154"], [.25, "#3b528b"], [.5, "#21918c"], [.75, "#5ec962"], [1, "#fde725"]];
const WORDS = [[0, "#ffffff"], [.5, "#92c5de"], [1, "#2166ac"]];
const finite = values => Array.from(values).filter(Number.isFinite);
// A tick of a logarithmic scale of colours.
const power = tick => tick === Math.round(tick) && (tick < -3 || tick > 4) ? `10<sup>${written(tick)}</sup>` : written(Number((10 ** tick).toPrecision(3)));
const plain = text => text.replace(/&/g, "&amp;").replace(/</g, "&lt;");
const parts = colour => [1, 3, 5].map(k => parseInt(colour.slice(k, k + 2), 16));
function shade(scale, place) {
  const at = Math.max(0, Math.min(1, place)), k = Math.max(1, scale.findIndex(([end]) => at <= end)), [from, first] = scale[k - 1], [to, second] = scale[k];
  const share = (at - from) / (to - from), [one, two] = [parts(first), parts(second)];
  return "#" + one.map((value, n) => Math.round(value + share * (two[n] - value)).toString(16).padStart(2, "0")).join("");
}
const dark = colour => { const [r, g, b] = parts(colour); return .299 * r + .587 * g + .114 * b < 140; };

// ---- the page

const panels = [];
function show(panel, place) {
  const made = new Panel(panel);
  place.append(made.root);
  panels.push(made);
  made.draw();
  return made;
}
const first = document.getElementById("first"), picked = document.getElementById("picked"), pick = document.getElementById("pick"), filter = document.getElementById("filter");
page.panels.slice(0, page.first).forEach(panel => show(panel, first));

const choice = page.panels.slice(page.first).map((panel, k) => ({panel, k, group: panel.key.split("/").slice(0, -1).join("/"), name: panel.key.split("/").pop()}));
function offer() {
  const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean), groups = new Map();
  for (const one of choice) {
    if (!words.every(word => `${one.panel.key} ${one.panel.title}`.toLowerCase().includes(word))) continue;
    if (!groups.has(one.group)) groups.set(one.group, element("optgroup", {label: one.group || "other"}));
    groups.get(one.group).append(option(String(one.k), `${one.name}: ${one.panel.title}${inBrackets(one.panel.unit)}`));
  }
  pick.replaceChildren(...groups.values());
  if (!pick.options.length) pick.append(option("", "no such variable"));
}
function choose() {
  const old = panels.findIndex(one => one.root.parentNode === picked);
  if (old >= 0) panels.splice(old, 1)[0].remove();
  if (pick.value !== "") show(choice[Number(pick.value)].panel, picked);
}
filter.addEventListener("input", () => { offer(); choose(); });
pick.addEventListener("change", choose);
if (choice.length) { offer(); choose(); } else document.getElementById("all").hidden = true;

let width = window.innerWidth, waiting = false;
window.addEventListener("resize", () => {
  if (window.innerWidth === width || waiting) return;
  waiting = true;
  requestAnimationFrame(() => { waiting = false; width = window.innerWidth; panels.forEach(one => one.draw()); });
});
window.addEventListener("scroll", () => { tip.hidden = true; }, {passive: true});
document.documentElement.dataset.ready = "yes";  // everything is drawn
})();
