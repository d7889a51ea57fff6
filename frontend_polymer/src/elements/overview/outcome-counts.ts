// How many graphs the verdict says what of.

import type { DatabaseFile } from '../../generated/graph_pb';
import type { Texts } from '../../i18n';
import { create } from '../parts/create';
import { formatCount } from '../parts/format';
import { partStyle } from '../parts/grade-style';
import { isJudged, OUTCOMES, outcomeOf } from './heat-cell';

/** The key of the map; nothing without a verdict. */
export function outcomeCounts(file: DatabaseFile, text: Texts): HTMLElement[] {
  if (!isJudged(file)) return [];
  return OUTCOMES.map(({ name, part, sign }) => {
    const count = file.graphs.filter((pair) => outcomeOf(pair).name === name).length;
    const entry = create('span', 'outcome');
    entry.dataset['outcome'] = name;
    const swatch = create('span', 'swatch', sign);
    swatch.style.cssText = partStyle(part);
    swatch.ariaHidden = 'true';
    entry.append(swatch, `${text.outcomes[name]} `, create('strong', '', formatCount(count)));
    return entry;
  });
}
