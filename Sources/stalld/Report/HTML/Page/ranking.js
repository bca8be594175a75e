// The groups, ranked; a row opens to its stack and its longest stalls.
{
  const PAGE = 25;
  const words = { culprit: 'Culprit', fingerprint: 'Fingerprint', cause: 'Cause', service: 'Service', host: 'Host', release: 'Release' };
  // Title, value, how it is written, classes; the first direction of a text is ascending.
  const columns = [
    { title: words[data.by] || data.by, key: group => group.key, isText: true },
    { title: 'Cause', key: group => group.cause, show: group => group.cause ? badge(Math.max(0, data.causes.indexOf(group.cause))) : '–', isText: true, class: 'left narrow-off' },
    { title: 'Total', key: group => group.ms, show: group => duration(group.ms) },
    { title: 'Stalls', key: group => group.count, show: group => whole(group.count) },
    { title: 'Hosts', key: group => group.hosts ?? -1, show: group => group.hosts === null ? '–' : whole(group.hosts), class: 'narrow-off' },
    { title: 'p50', key: group => group.p50 ?? -1, show: group => duration(group.p50), class: 'wide' },
    { title: 'p95', key: group => group.p95 ?? -1, show: group => duration(group.p95), class: 'narrow-off' },
    { title: 'p99', key: group => group.p99 ?? -1, show: group => duration(group.p99), class: 'wide' },
    { title: 'Max', key: group => group.max ?? -1, show: group => duration(group.max), class: 'narrow-off' },
    { title: 'First seen', key: group => group.first ?? 0, show: group => moment(group.first, true), class: 'wide' },
    { title: 'Last seen', key: group => group.last ?? 0, show: group => moment(group.last, true), class: 'wide' },
  ];
  const body = document.querySelector('#ranking tbody');
  const head = document.querySelector('#ranking thead tr');
  const open = new Set();
  // As the report ranks them: total time, times the hosts.
  let order = null, isDescending = true, limit = PAGE, selection = null;

  columns.forEach((column, number) => {
    const button = node('button', { type: 'button', onclick: () => {
      isDescending = order === number ? !isDescending : !column.isText;
      order = number;
      draw();
    } }, column.title);
    column.cell = node('th', { scope: 'col', class: column.class }, button);
    head.append(column.cell);
  });

  function sorted() {
    const rank = group => group.ms * (group.hosts ?? data.groups[group.number].hosts);
    const value = order === null ? rank : columns[order].key;
    const compare = (a, b) => typeof a === 'string' ? a.localeCompare(b) : a - b;
    return [...selection.groups].sort((a, b) => (isDescending ? -1 : 1) * compare(value(a), value(b)) || a.number - b.number);
  }

  function more(group) {
    const mine = selection.inTime.filter(row => row[GROUP] === group.number && row[STATE] !== SUMMARY).sort((a, b) => b[MS] - a[MS]);
    const longest = node('ol', { class: 'longest' }, ...mine.slice(0, 8).map(row => node('li', {}, node('button', { type: 'button', onclick: () => openStall(row) },
      node('b', {}, duration(row[MS])), node('span', {}, `${moment(data.totals.first + row[START], true)} · ${text(row[SERVICE])} on ${text(row[HOST])}`)))));
    const isOnly = chosen.group === group.number;
    const left = node('div', {}, node('h3', {}, 'Stack with the most time, innermost first'), stackList(group.stack ?? -1));
    const right = node('div', {}, node('h3', {}, mine.length ? 'Longest stalls' : 'This page has no single stall of this group'), longest,
      group.fatal ? node('p', { class: 'note' }, `The process ended in ${plural(group.fatal, 'stall')}.`) : null,
      group.suppressed ? node('p', { class: 'note' }, `${plural(group.suppressed, 'stall')} ${was(group.suppressed)} reported in summaries, not one by one.`) : null,
      node('div', { class: 'actions' }, node('button', { class: 'plain', type: 'button', onclick: () => choose({ group: isOnly ? null : group.number }) }, isOnly ? 'Show all' : 'Show only this')));
    return node('tr', { class: 'more' }, node('td', { colspan: columns.length }, node('div', { class: 'columns' }, left, right)));
  }

  function draw() {
    columns.forEach((column, number) => {
      if (order === number) column.cell.setAttribute('aria-sort', isDescending ? 'descending' : 'ascending');
      else column.cell.removeAttribute('aria-sort');
    });
    const groups = sorted();
    const most = Math.max(1e-9, ...groups.map(group => group.ms));
    const rows = [];
    for (const group of groups.slice(0, limit)) {
      const isOpen = open.has(group.number);
      const name = node('button', { type: 'button', class: 'name', 'aria-expanded': String(isOpen), onclick: event => {
        if (!open.delete(group.number)) open.add(group.number);
        draw();
        body.querySelectorAll('.name').forEach(it => { if (it.group === group.number) it.focus(); });
      } }, node('span', { title: groupName(group.number, true) }, groupName(group.number)));
      name.group = group.number;
      const bar = node('i');
      bar.style.width = `${group.ms / most * 100}%`;
      const cause = data.causes.indexOf(group.cause);
      const first = node('td', {}, name, node('div', { class: `bar ${cause >= 0 ? causeClass(cause) : ''}`, 'aria-hidden': 'true' }, bar));
      rows.push(node('tr', { class: 'group' }, first, ...columns.slice(1).map(column => node('td', { class: column.class }, column.show(group)))));
      if (isOpen) rows.push(more(group));
    }
    if (!groups.length) rows.push(node('tr', {}, node('td', { colspan: columns.length, class: 'quiet' }, 'No stall matches the filters above.')));
    body.replaceChildren(...rows);
    const button = document.getElementById('more');
    button.hidden = groups.length <= limit;
    button.textContent = `Show ${whole(Math.min(groups.length - limit, 100))} more`;
    document.getElementById('ranking-note').textContent = order === null ? 'Ranked by total time × hosts.' + (data.omittedGroups ? ` The first ${whole(data.groups.length)} of ${whole(data.groups.length + data.omittedGroups)}.` : '') : '';
  }
  document.getElementById('more').addEventListener('click', () => { limit += 100; draw(); });
  addEventListener('beforeprint', () => { limit = Math.max(limit, 50); draw(); });

  views.push(now => { selection = now; draw(); });
}
