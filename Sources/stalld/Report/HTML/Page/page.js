// What the page says first, and the choice that all views share.
{
  const totals = data.totals;
  const worst = data.groups[0];
  const show = (id, ...words) => document.getElementById(id).replaceChildren(...words);
  show('headline', totals.stalls ? `${plural(totals.stalls, 'stall')}: loops and tasks were blocked for ${duration(totals.ms)}` : 'No stalls');
  const since = totals.since === null ? '' : `; only lines since ${moment(totals.since)}`;
  const sameDay = moment(totals.first, true).slice(0, 10) === moment(totals.last, true).slice(0, 10);
  if (totals.stalls) {
    show('scope', `${plural(totals.services, 'service')} on ${plural(totals.hosts, 'host')}, ${moment(totals.first, true)} to ${sameDay ? moment(totals.last, true).slice(11) : moment(totals.last, true)} UTC${since}`);
    const share = percent(worst.ms / Math.max(totals.ms, 1e-9));
    show('worst', 'Start with: ', node('code', {}, groupName(0)), `, ${share} of that time in ${plural(worst.count, 'stall')}`,
      worst.hosts > 1 ? ` on ${worst.hosts} hosts` : '', worst.cause && worst.cause !== worst.key ? `, cause: ${worst.cause}.` : '.');
  }
  else show('scope', since.slice(2));
  if (totals.unread) {
    show('unread', `${plural(totals.unread, 'input')} could not be read to the end: the numbers may be too low.`);
    document.getElementById('unread').hidden = false;
  }
  const tiles = [['Stalls', whole(totals.stalls)], ['Stalled time', duration(totals.ms)], ['Median', duration(totals.p50)], ['99th percentile', duration(totals.p99)],
    ['Longest', duration(totals.longest)], ['Fatal', whole(totals.fatal)], ['Hosts', whole(totals.hosts)]];
  show('tiles', ...tiles.map(([name, value]) => node('div', {}, node('dt', {}, name), node('dd', {}, value))));

  const chips = data.causes.map((name, cause) => cause).filter(cause => causeTime[cause] > 0 || data.stalls.some(row => row[CAUSE] === cause))
    .sort((a, b) => causeTime[b] - causeTime[a]);
  views.push(() => {
    const pills = [];
    if (chosen.group !== null) pills.push(node('button', { class: 'chip pill', type: 'button', onclick: () => choose({ group: null }), 'aria-label': `Show all again, not only ${groupName(chosen.group)}` }, node('span', { class: 'label' }, `only ${groupName(chosen.group)}`), '×'));
    if (isTimeChosen()) pills.push(node('button', { class: 'chip pill', type: 'button', onclick: () => choose({ from: 0, to: span }), 'aria-label': 'Show all times again' },
      node('span', { class: 'label' }, `${moment(totals.first + chosen.from, true)} to ${moment(totals.first + chosen.to, true)}${data.complete ? '' : ' (timeline only)'}`), '×'));
    const focused = document.activeElement && document.activeElement.dataset && document.activeElement.dataset.cause;
    show('chips', ...chips.map(cause => node('button', { class: `chip`, type: 'button', 'data-cause': String(cause), 'aria-pressed': String(chosen.causes.has(cause)), onclick: event => {
      const causes = new Set(chosen.causes);
      // The first choice of a cause shows it alone; leaving none shows all.
      if (causes.size === data.causes.length) { causes.clear(); causes.add(cause); } else if (!causes.delete(cause)) causes.add(cause);
      choose({ causes: causes.size && !chips.every(chip => causes.has(chip)) ? causes : new Set(data.causes.keys()) });
    } }, node('span', { class: `dot ${causeClass(cause)}` }), causeName(cause), node('span', { class: 'share' }, percent(causeTime[cause] / Math.max(totals.ms, 1e-9))))), ...pills);
    if (focused) document.querySelector(`[data-cause="${focused}"]`)?.focus();
  });

  const notes = [];
  if (totals.suppressed) notes.push(`${plural(totals.suppressed, 'stall')} ${was(totals.suppressed)} reported in summaries: totals, bars and the flame graph include them, percentiles and marks do not.`);
  if (data.omittedStacks) notes.push(`The flame graph has the heaviest ${whole(data.stacks.length)} stacks; the time of others is in “(other stacks)”.`);
  if (totals.skipped) notes.push(`${plural(totals.skipped, 'line')} of ${whole(totals.lines)} ${was(totals.skipped)} skipped: not a report.`);
  show('notes', ...notes.map(words => node('p', {}, words)));
  if (totals.stalls) render(); else document.querySelector('main').hidden = true;
  document.documentElement.dataset.state = 'ready';
}
