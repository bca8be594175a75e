// How long stalls take, on a logarithmic scale.
{
  const host = document.getElementById('histogram');
  const HEIGHT = 282, LEFT = 40, RIGHT = 6, TOP = 8;
  let width = 0, selection = null;

  // Edges are powers of 10^(1/8); a cell is a bin, a cause, and how many.
  const edge = bin => Math.pow(10, bin / 8);
  function cells() {
    if (!data.complete) return data.histogram.filter(cell => chosen.causes.has(cell[1]));
    return selection.inTime.filter(row => row[STATE] !== SUMMARY).map(row => [Math.floor(Math.log10(Math.max(row[MS], 1)) * 8 + 1e-9), row[CAUSE], 1]);
  }

  function draw() {
    if (!width || !selection) return;
    const bins = new Map();
    for (const [bin, cause, count] of cells()) {
      if (!bins.has(bin)) bins.set(bin, new Map());
      bins.get(bin).set(cause, (bins.get(bin).get(cause) || 0) + count);
    }
    const numbers = [...bins.keys()];
    const first = numbers.length ? Math.min(...numbers) - 1 : 16, last = Math.max(numbers.length ? Math.max(...numbers) + 1 : 24, first + 8);
    const sum = bin => [...bin.values()].reduce((a, b) => a + b, 0);
    const tallest = Math.max(1, ...[...bins.values()].map(sum));
    const bottom = TOP + HEIGHT, plot = width - LEFT - RIGHT;
    const x = bin => LEFT + (bin - first) / (last + 1 - first) * plot;
    const svg = shape('svg', { viewBox: `0 0 ${width} ${bottom + 22}`, height: bottom + 22, role: 'img', 'aria-label': `Histogram of durations; the largest bin has ${plural(tallest, 'stall')}` });
    const step = [1, 2, 5].map(digit => digit * 10 ** Math.floor(Math.log10(tallest / 4 || 1))).concat(10 ** Math.ceil(Math.log10(tallest / 4 || 1))).find(step => tallest / step <= 5) || 1;
    for (let level = Math.max(1, step); level <= tallest; level += Math.max(1, step)) {
      const y = bottom - level / tallest * HEIGHT;
      svg.append(shape('line', { class: 'grid', x1: LEFT, x2: width - RIGHT, y1: y, y2: y }),
        shape('text', { x: LEFT - 6, y: y + 4, 'text-anchor': 'end' }, compact(level)));
    }
    svg.append(shape('line', { class: 'grid', x1: LEFT, x2: width - RIGHT, y1: bottom, y2: bottom }));
    for (const ms of namedDurations(first / 8, (last + 1) / 8, plot, 48)) {
      const at = x(Math.log10(ms) * 8);
      svg.append(shape('line', { class: 'grid', x1: at, x2: at, y1: bottom, y2: bottom + 4 }),
        shape('text', { x: Math.min(at, width - 14), y: bottom + 17, 'text-anchor': 'middle' }, axisDuration(ms)));
    }
    for (const [bin, parts] of bins) {
      let y = bottom;
      const bar = shape('g', { class: 'bar-of-durations' });
      for (const [cause, count] of [...parts].sort(byCauseTime)) {
        const height = count / tallest * HEIGHT;
        y -= height;
        bar.append(shape('rect', { class: causeClass(cause), x: x(bin), y, width: Math.max(1, x(bin + 1) - x(bin) - 1), height }));
      }
      // The whole column answers the pointer: a bar of one stall is a point high.
      bar.append(shape('rect', { x: x(bin), y: TOP, width: x(bin + 1) - x(bin), height: HEIGHT, 'fill-opacity': 0 }));
      bar.addEventListener('pointermove', event => showTip(`${duration(edge(bin))} to ${duration(edge(bin + 1))}: ${plural(sum(parts), 'stall')}\n${[...parts].sort((a, b) => b[1] - a[1]).map(([cause, count]) => `${whole(count)} ${causeName(cause)}`).join('\n')}`, event.clientX, event.clientY));
      bar.addEventListener('pointerleave', hideTip);
      svg.append(bar);
    }
    host.replaceChildren(svg);
  }
  const compact = value => value >= 1e6 ? `${+(value / 1e6).toFixed(1)}M` : value >= 1000 ? `${+(value / 1000).toFixed(1)}k` : `${+value.toFixed(value < 10 ? 1 : 0)}`;

  views.push(now => { selection = now; draw(); });
  onWidth(host, now => { width = now; draw(); });
}
