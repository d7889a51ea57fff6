// The losses of both runs, over the steps.

import { html } from '@polymer/polymer/polymer-element.js';

import type { Texts } from '../../i18n';
import type { Losses } from '../../data/losses';
import { create } from './create';
import { curves } from './curves';
import { formatNumber, formatPercent } from './format';

const HEIGHT = 88;

/** The curves, and in words how far they are apart; null where no loss was recorded. */
export function lossCurve(
  { steps, lines, apart }: Losses,
  names: readonly string[],
  width: number,
  text: Texts,
): HTMLElement | null {
  if (!lines.length || width <= 0) return null;
  const said = apart && text.overview.lossApart(formatPercent(apart.share), apart.step);
  const head = create('p', '');
  head.append(create('strong', '', text.overview.loss));
  lines.forEach(({ values }, at) => {
    const key = create('span', at === 0 ? 'key own' : 'key other', names[at]);
    if (steps.length === 1) key.append(' ', create('b', '', formatNumber(values[0]!)));
    head.append(' ', key);
  });
  if (said) head.append(' · ', create('span', 'apart', said));
  const element = create('div', 'loss');
  element.append(head);
  const label = [text.overview.loss, ...names, said ?? ''].filter(Boolean).join(', ');
  // A curve of one point tells less than its number.
  if (steps.length > 1) {
    const values = lines.map((line) => line.values);
    element.append(curves(steps, values, { width, height: HEIGHT, label }));
  }
  return element;
}

export const lossStyles = html`<style>
  .loss p {
    margin: 0 0 2px;
  }
  .loss :is(.key, .apart) {
    white-space: nowrap;
  }
  .loss .key::before {
    content: '';
    display: inline-block;
    width: 18px;
    margin: 0 5px 3px 10px;
    border-top: 2px solid var(--ga-accent);
  }
  .loss .key.other::before {
    border-top: 2px dashed var(--ga-text);
  }
  .loss svg {
    display: block;
    color: var(--ga-muted);
  }
  .loss .own {
    color: var(--ga-accent);
  }
  .loss .other {
    color: var(--ga-text);
    stroke-dasharray: 5 4;
  }
  .loss .broken {
    color: var(--ga-danger);
  }
</style>`;
