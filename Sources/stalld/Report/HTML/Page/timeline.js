// When stalls happened and how long they took: a mark a stall, on a logarithmic scale, above bars of stalled time.
{
  const host = document.getElementById('timeline');
  const HEIGHT = 220, BARS = 54, GAP = 22, LEFT = 52, RIGHT = 8, TOP = 8;
  let width = 0, selection = null, current = null;

  const view = () => [chosen.from, chosen.to];
  const plotWidth = () => Math.max(40, width - LEFT - RIGHT);
  const xOf = seconds => LEFT + (seconds - view()[0]) / (view()[1] - view()[0]) * plotWidth();
  const secondsAt = x => view()[0] + Math.max(0, Math.min(1, (x - LEFT) / plotWidth())) * (view()[1] - view()[0]);

  const durations = data.stalls.filter(row => row[STATE] !== SUMMARY).map(row => Math.max(row[MS], 1));
  const lowest = Math.log10(durations.length ? durations.reduce((a, b) => Math.min(a, b)) : 100) - 0.08;
  const highest = Math.max(lowest + 0.6, Math.log10(durations.length ? durations.reduce((a, b) => Math.max(a, b)) : 1000) + 0.08);
  const yOf = ms => TOP + (highest - Math.log10(Math.max(ms, 1))) / (highest - lowest) * HEIGHT;

  const marks = () => selection.inTime.filter(row => row[STATE] !== SUMMARY).sort((a, b) => a[START] - b[START]);
  const words = row => `${moment(data.totals.first + row[START])}\n${duration(row[MS])} · ${causeName(row[CAUSE])}${row[STATE] === FATAL ? ' · the process ended in this stall' : ''}\n${groupName(row[GROUP])}\n${text(row[SERVICE])} on ${text(row[HOST])}`;

  function zoom(from, to) {
    const least = Math.min(span, 0.05);
    if (to - from < least) { const middle = (from + to) / 2; from = middle - least / 2; to = middle + least / 2; }
    choose({ from: Math.max(0, from), to: Math.min(span, to) });
  }
  function zoomBy(factor, around = (view()[0] + view()[1]) / 2) {
    const [from, to] = view();
    zoom(around - (around - from) * factor, around + (to - around) * factor);
  }
  function pan(share) {
    const [from, to] = view();
    const by = Math.max(-from, Math.min(span - to, (to - from) * share));
    zoom(from + by, to + by);
  }

  function timeTicks() {
    const [from, to] = view();
    const steps = [0.01, 0.05, 0.1, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800, 2592000, 7776000, 31536000];
    const step = steps.find(step => (to - from) / step <= plotWidth() / 92) || 63072000;
    const first = Math.ceil((data.totals.first + from) / step) * step;
    const ticks = [];
    for (let at = first; at <= data.totals.first + to && ticks.length < 40; at += step) ticks.push([at - data.totals.first, tickWords(at, step)]);
    return ticks;
  }
  function tickWords(at, step) {
    const iso = new Date(Math.round(at * 1000)).toISOString();
    if (step >= 86400) return iso.slice(5, 10);
    if (step >= 60) return iso.slice(11, 16) === '00:00' ? iso.slice(5, 10) : iso.slice(11, 16);
    return step >= 1 ? iso.slice(11, 19) : iso.slice(17, 23);
  }

  // The stalled time, by bin and cause.
  function bins() {
    const [from, to] = view();
    if (data.complete) {
      const count = Math.max(12, Math.min(160, Math.floor(plotWidth() / 7)));
      const size = (to - from) / count;
      const bins = Array.from({ length: count }, (_, bin) => ({ from: from + bin * size, to: from + (bin + 1) * size, ms: new Map(), count: 0 }));
      for (const row of selection.inTime) {
        const bin = bins[Math.max(0, Math.min(count - 1, Math.floor((row[START] - from) / size)))];
        bin.ms.set(row[CAUSE], (bin.ms.get(row[CAUSE]) || 0) + row[MS]);
        bin.count += row[COUNT];
      }
      return bins;
    }
    const size = data.bins.width;
    // Coarser where a bar would have less than three points.
    const merged = Math.max(1, Math.ceil(3 * (to - from) / size / plotWidth()));
    const bins = new Map();
    for (const [bin, cause, ms, count] of data.bins.cells) {
      if (!chosen.causes.has(cause)) continue;
      const number = Math.floor(bin / merged);
      if (!bins.has(number)) bins.set(number, { from: number * merged * size, to: (number + 1) * merged * size, ms: new Map(), count: 0 });
      const it = bins.get(number);
      it.ms.set(cause, (it.ms.get(cause) || 0) + ms);
      it.count += count;
    }
    return [...bins.values()].filter(bin => bin.to > from && bin.from < to);
  }

  function draw() {
    if (!width || !selection) return;
    const total = TOP + HEIGHT + GAP + BARS + 20;
    const svg = shape('svg', { viewBox: `0 0 ${width} ${total}`, height: total, 'aria-hidden': 'true' });
    for (const ms of namedDurations(lowest, highest, HEIGHT, 20)) {
      svg.append(shape('line', { class: 'grid', x1: LEFT, x2: width - RIGHT, y1: yOf(ms), y2: yOf(ms) }),
        shape('text', { x: LEFT - 8, y: yOf(ms) + 4, 'text-anchor': 'end' }, axisDuration(ms)));
    }
    const bottom = TOP + HEIGHT + GAP + BARS;
    for (const [at, label] of timeTicks()) {
      const x = xOf(at);
      svg.append(shape('line', { class: 'grid', x1: x, x2: x, y1: TOP, y2: bottom }));
      if (x > LEFT + 14 && x < width - 18) svg.append(shape('text', { x, y: bottom + 15, 'text-anchor': 'middle' }, label));
    }
    const all = bins();
    const tallest = Math.max(1, ...all.map(bin => [...bin.ms.values()].reduce((a, b) => a + b, 0)));
    svg.append(shape('text', { x: LEFT - 8, y: bottom - BARS + 9, 'text-anchor': 'end' }, duration(tallest).replace(/(\d)\.\d+ /, '$1 ').replace(/(min|h) .*/, '$1')),
      shape('line', { class: 'grid', x1: LEFT, x2: width - RIGHT, y1: bottom, y2: bottom }));
    for (const bin of all) {
      let y = bottom;
      for (const [cause, ms] of [...bin.ms].sort(byCauseTime)) {
        const height = ms / tallest * BARS;
        const x = Math.max(LEFT, xOf(bin.from));
        y -= height;
        svg.append(shape('rect', { class: `bin ${causeClass(cause)}`, x, y, width: Math.max(1, Math.min(width - RIGHT, xOf(bin.to)) - x - 1), height }));
      }
    }
    const surface = shape('rect', { class: 'surface', x: LEFT, y: 0, width: plotWidth(), height: bottom });
    svg.append(surface);
    const rows = marks();
    const radius = rows.length > 1500 ? 2.5 : rows.length > 300 ? 3.2 : 4.5;
    // The longest last, so that they lie on top.
    for (const row of [...rows].sort((a, b) => a[MS] - b[MS])) {
      const x = xOf(row[START]), y = yOf(row[MS]);
      const mark = row[STATE] === FATAL
        ? shape('path', { d: `M${x - radius - 1.5} ${y}L${x} ${y - radius - 1.5}L${x + radius + 1.5} ${y}L${x} ${y + radius + 1.5}Z` })
        : shape('circle', { cx: x, cy: y, r: radius });
      mark.setAttribute('class', `mark ${causeClass(row[CAUSE])}${row === current ? ' current' : ''}`);
      mark.stall = row;
      svg.append(mark);
    }
    svg.append(shape('rect', { class: 'brush', y: TOP, height: bottom - TOP, width: 0, visibility: 'hidden' }));
    host.replaceChildren(svg);
    host.setAttribute('aria-label', `Timeline of ${plural(rows.length, 'stall')} from ${moment(data.totals.first + view()[0], true)} to ${moment(data.totals.first + view()[1], true)}. Arrows go from stall to stall, Enter opens one, plus and minus zoom, 0 shows all.`);
    const binAt = x => { const at = secondsAt(x); return all.find(bin => at >= bin.from && at < bin.to); };
    listen(svg, binAt, bottom);
  }

  function listen(svg, binAt, bottom) {
    const brush = svg.querySelector('.brush');
    const at = event => event.clientX - svg.getBoundingClientRect().left;
    let began = null;
    svg.addEventListener('pointerdown', event => {
      if (event.button !== 0 || event.target.stall || event.pointerType === 'touch') return;
      began = at(event);
      svg.setPointerCapture(event.pointerId);
    });
    svg.addEventListener('pointermove', event => {
      const x = at(event);
      if (began !== null) {
        const [from, to] = [Math.min(began, x), Math.max(began, x)];
        brush.setAttribute('x', Math.max(LEFT, from));
        brush.setAttribute('width', Math.max(0, Math.min(to, width - RIGHT) - Math.max(LEFT, from)));
        brush.setAttribute('visibility', 'visible');
        return;
      }
      if (event.target.stall) return showTip(words(event.target.stall), event.clientX, event.clientY);
      const y = event.clientY - svg.getBoundingClientRect().top;
      const bin = y > bottom - BARS - 4 && binAt(x);
      if (!bin) return hideTip();
      const parts = [...bin.ms].sort((a, b) => b[1] - a[1]).map(([cause, ms]) => `${duration(ms)} ${causeName(cause)}`);
      showTip(`${moment(data.totals.first + bin.from, true)}: ${plural(bin.count, 'stall')}\n${parts.join('\n')}`, event.clientX, event.clientY);
    });
    svg.addEventListener('pointerup', event => {
      if (began === null) return;
      const [from, to] = [Math.min(began, at(event)), Math.max(began, at(event))];
      began = null;
      brush.setAttribute('visibility', 'hidden');
      if (to - from > 4) zoom(secondsAt(from), secondsAt(to));
    });
    svg.addEventListener('pointerleave', hideTip);
    svg.addEventListener('click', event => { if (event.target.stall) { hideTip(); openStall(event.target.stall); } });
    svg.addEventListener('dblclick', event => { if (!event.target.stall) zoomBy(0.4, secondsAt(at(event))); });
  }

  function step(by) {
    const rows = marks();
    if (!rows.length) return;
    const place = rows.indexOf(current);
    current = rows[place < 0 ? (by > 0 ? 0 : rows.length - 1) : Math.max(0, Math.min(rows.length - 1, place + by))];
    draw();
    const box = host.querySelector('.current').getBoundingClientRect();
    showTip(words(current), box.right, box.bottom);
  }
  host.addEventListener('keydown', event => {
    const keys = { ArrowRight: () => event.shiftKey ? pan(0.25) : step(1), ArrowLeft: () => event.shiftKey ? pan(-0.25) : step(-1), '+': () => zoomBy(0.5), '=': () => zoomBy(0.5),
      '-': () => zoomBy(2), '0': () => choose({ from: 0, to: span }), Escape: () => { hideTip(); choose({ from: 0, to: span }); }, Enter: () => { if (current) { hideTip(); openStall(current); } } };
    if (!keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });
  host.addEventListener('blur', hideTip);

  for (const [id, action] of [['zoom-in', () => zoomBy(0.5)], ['zoom-out', () => zoomBy(2)], ['zoom-all', () => choose({ from: 0, to: span })]]) {
    document.getElementById(id).addEventListener('click', action);
  }
  document.getElementById('timeline-note').textContent = data.complete
    ? 'A mark is a stall; the bars are stalled time. Drag, or + and −, to zoom.'
    : `Marks: the ${whole(data.stalls.length)} longest of ${plural(data.totals.stalls, 'stall')}; the bars count all. Drag, or + and −, to zoom.`;
  views.push(now => {
    selection = now;
    document.getElementById('zoom-all').disabled = !isTimeChosen();
    document.getElementById('zoom-out').disabled = !isTimeChosen();
    draw();
  });
  onWidth(host, now => { width = now; draw(); });
}
