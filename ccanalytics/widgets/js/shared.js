// Helpers of all widgets. Whatever comes from a transcript is set as text content, never as markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(node, attrs, children) {
  for (const [name, value] of Object.entries(attrs || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "text") node.textContent = String(value);
    else if (name === "on") for (const [event, handler] of Object.entries(value)) node.addEventListener(event, handler);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children) if (child) node.append(child);
  return node;
}

const h = (tag, attrs, ...children) => fill(document.createElement(tag), attrs, children);
const s = (tag, attrs, ...children) => fill(document.createElementNS(SVG, tag), attrs, children);

function asker(model) {
  // Questions to Python, answered by a message with the same id.
  let next = 0;
  const waiting = new Map();
  const onMessage = (message) => {
    if (!message || !waiting.has(message.answer)) return;
    waiting.get(message.answer)(message.data);
    waiting.delete(message.answer);
  };
  model.on("msg:custom", onMessage);
  const prefix = Math.random().toString(36).slice(2);
  return {
    ask: (what, args = {}) =>
      new Promise((resolve) => {
        const id = `${prefix}-${next++}`;
        waiting.set(id, resolve);
        model.send({ ...args, ask: what, id });
      }),
    stop: () => model.off("msg:custom", onMessage),
  };
}

function listen(model, handlers) {
  const names = Object.entries(handlers);
  for (const [name, handler] of names) model.on(`change:${name}`, handler);
  return () => names.forEach(([name, handler]) => model.off(`change:${name}`, handler));
}

function put(model, values) {
  for (const [name, value] of Object.entries(values)) model.set(name, value);
  model.save_changes();
}

function picker(label, options, value, onChange, { wide = false } = {}) {
  // options: texts or [value, label] pairs
  const select = h("select", { "aria-label": label, class: wide ? "cca-wide" : null });
  const show = (list, now) => {
    select.replaceChildren();
    for (const option of list) {
      const [key, text] = Array.isArray(option) ? option : [option, String(option).replaceAll("_", " ")];
      select.append(h("option", { value: key, text, selected: key === now }));
    }
    select.value = now;
  };
  show(options, value);
  select.addEventListener("change", () => onChange(select.value));
  return { node: h("label", { class: "cca-field" }, h("span", { text: label }), select), show, select };
}

function dataTable(view, label) {
  // view: {columns, cells, total}
  const box = h("div", { class: "cca-scroll", tabindex: "0", role: "region", "aria-label": label });
  if (!view || !view.cells || !view.cells.length) return box;
  const numeric = view.columns.map((c) => /(_tokens|_usd|_ms)$/.test(c));
  const table = h("table", { class: "cca-table" });
  table.append(
    h(
      "thead",
      {},
      h(
        "tr",
        {},
        ...view.columns.map((c, i) => h("th", { text: c, scope: "col", class: numeric[i] ? "cca-num" : null })),
      ),
    ),
  );
  const body = h("tbody");
  for (const row of view.cells)
    body.append(
      h("tr", {}, ...row.map((c, i) => h("td", { text: c, title: c, class: numeric[i] ? "cca-num" : null }))),
    );
  table.append(body);
  box.append(table);
  if (view.total > view.cells.length)
    box.append(
      h("div", {
        class: "cca-note",
        text: `the first ${view.cells.length} of ${view.total.toLocaleString("en")} rows; all are in .selection`,
      }),
    );
  return box;
}

function factList(facts) {
  const list = h("dl", { class: "cca-facts" });
  for (const [name, value] of facts || []) list.append(h("dt", { text: name }), h("dd", { text: value }));
  return list;
}

function textBlock(title, text, open = true) {
  if (!text) return null;
  return h("details", { open }, h("summary", { text: title }), h("pre", { class: "cca-text", tabindex: "0", text }));
}

function lineList(questions, title, which, count, where) {
  // Lines that are asked for when the list is opened.
  const box = h("details", {}, h("summary", { text: title }));
  box.addEventListener("toggle", async () => {
    if (!box.open || box.children.length > 1) return;
    const list = h("ul", { class: "cca-lines" });
    box.append(list);
    const rows = await questions.ask("lines", { ...which, from: 0 });
    for (const [kind, text] of rows) list.append(h("li", {}, h("b", { text: kind }), h("span", { text: " " + text })));
    if (count > rows.length)
      list.append(h("li", { class: "cca-note", text: `and ${count - rows.length} more, in ${where}` }));
  });
  return box;
}

function short(value, measure) {
  if (measure === "cost")
    return (
      "$" +
      (Math.abs(value) >= 1
        ? value.toLocaleString("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 })
        : value === 0
          ? "0"
          : value.toPrecision(2))
    );
  for (const [step, unit] of [
    [1e9, "G"],
    [1e6, "M"],
    [1e3, "k"],
  ])
    if (Math.abs(value) >= step * 0.9995) return String(Number((value / step).toPrecision(3))) + unit;
  return String(Number(value.toPrecision(3)));
}

function niceSteps(top, wanted = 4) {
  if (!(top > 0)) return [0, 1];
  const rough = top / wanted;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((m) => m >= rough);
  const out = [];
  for (let v = 0; v < top + step * 0.999; v += step) out.push(v);
  return out;
}

function virtualList({ label, rowHeight, height, ask, draw, pick }) {
  // Only the rows in sight are asked for and drawn. Past MOST pixels browsers stop, so the place is scaled then.
  const MOST = 8000000;
  const filler = h("div", { class: "cca-filler" });
  const port = h("div", { class: "cca-list", role: "listbox", tabindex: "0", "aria-label": label }, filler);
  port.style.height = `${height}px`;
  const rows = new Map();
  let total = 0,
    active = 0,
    turn = 0,
    frame = 0,
    stopped = false;
  const scale = () => Math.max(1, (total * rowHeight) / MOST);
  const firstSeen = () => Math.floor((port.scrollTop * scale()) / rowHeight);
  const seen = () => Math.ceil((port.clientHeight || height) / rowHeight) + 1;

  function place() {
    filler.style.height = `${Math.min(total * rowHeight, MOST)}px`;
    const first = Math.max(0, Math.min(firstSeen(), total - 1));
    const top = scale() === 1 ? null : port.scrollTop;
    const wanted = [];
    for (let i = first; i < Math.min(total, first + seen()); i++) {
      wanted.push(i);
    }
    filler.replaceChildren();
    for (const i of wanted) {
      const row = rows.has(i) ? draw(rows.get(i), i) : h("div", { class: "cca-row cca-wait", text: "…" });
      row.id = `${uid}-${i}`;
      row.setAttribute("role", "option");
      row.setAttribute("aria-setsize", total);
      row.setAttribute("aria-posinset", i + 1);
      row.classList.toggle("cca-active", i === active);
      row.style.height = `${rowHeight}px`;
      row.style.top = `${top === null ? i * rowHeight : top + (i - first) * rowHeight}px`;
      row.addEventListener("click", (event) => {
        active = i;
        if (rows.has(i)) pick(rows.get(i), i, event);
        place();
      });
      filler.append(row);
    }
    port.setAttribute("aria-activedescendant", `${uid}-${active}`);
    if (wanted.some((i) => !rows.has(i))) load(first);
  }

  async function load(first) {
    const mine = ++turn;
    const from = Math.max(0, first - seen());
    const answer = await ask(from, seen() * 3);
    if (stopped || mine !== turn) return;
    answer.rows.forEach((row, k) => rows.set(answer.from + k, row));
    if (rows.size > 2000) for (const i of [...rows.keys()]) if (Math.abs(i - first) > 500) rows.delete(i);
    if (answer.rows.length) place();
  }

  function move(to) {
    active = Math.max(0, Math.min(total - 1, to));
    const top = (active * rowHeight) / scale();
    const room = port.clientHeight || height;
    if (top < port.scrollTop) port.scrollTop = top;
    else if (top + rowHeight > port.scrollTop + room) port.scrollTop = top + rowHeight - room;
    place();
  }

  port.addEventListener("scroll", () => {
    cancelAnimationFrame(frame);
    frame = requestAnimationFrame(place);
  });
  port.addEventListener("keydown", (event) => {
    const page = seen() - 2;
    const steps = {
      ArrowDown: active + 1,
      ArrowUp: active - 1,
      PageDown: active + page,
      PageUp: active - page,
      Home: 0,
      End: total - 1,
    };
    if (event.key in steps) {
      move(steps[event.key]);
      event.preventDefault();
      event.stopPropagation();
    } else if ((event.key === "Enter" || event.key === " " || event.key.startsWith("Arrow")) && rows.has(active)) {
      pick(rows.get(active), active, event);
      event.preventDefault();
      event.stopPropagation();
    }
  });
  const uid = "cca" + Math.random().toString(36).slice(2);
  return {
    node: port,
    show(count, { keep = false } = {}) {
      turn++;
      rows.clear();
      total = count;
      if (!keep) {
        active = 0;
        port.scrollTop = 0;
      }
      active = Math.max(0, Math.min(active, total - 1));
      place();
    },
    redraw: place,
    stop() {
      stopped = true;
      cancelAnimationFrame(frame);
    },
  };
}

function begin(el, title) {
  const root = h("section", { class: "cca", "aria-label": title });
  // Jupyter front ends bind single keys to commands; those typed into a widget are its own.
  root.addEventListener("keydown", (event) => event.stopPropagation());
  root.dataset.lmSuppressShortcuts = "true";
  el.append(root);
  return root;
}
