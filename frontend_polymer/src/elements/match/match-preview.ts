import { MatchAction, type MatchReport } from '../../generated/graph_pb';
import type { Texts } from '../../i18n';
import { create } from '../parts/create';
import { formatCount } from '../parts/format';
import { gradeStyle } from '../parts/grade-style';
import { gradeName } from '../parts/words';

const SHOWN = 100;

/** What a change would do, pair by pair, or what stands in its way. */
export function matchPreview(report: MatchReport | null, text: Texts): HTMLElement[] {
  if (!report) return [create('p', 'muted', text.match.previewIdle)];
  const conflicts = report.conflicts.map(({ name, partnerName }) =>
    create('p', 'conflict', text.match.conflict(name, partnerName)),
  );
  const { changes } = report;
  if (changes.length === 0) {
    return conflicts.length > 0 ? conflicts : [create('p', 'muted', text.match.nothing)];
  }
  const title = create('p', '', text.match.preview(formatCount(changes.length)));
  const list = create('ul', '');
  for (const { action, npuName, benchName, grade } of changes.slice(0, SHOWN)) {
    const line = create('li', '');
    const isMatch = action === MatchAction.MATCH;
    line.append(
      create('span', 'sign', isMatch ? text.match.willMatch : text.match.willUnmatch),
      create('span', 'mono', `${npuName} ↔ ${benchName}`),
    );
    if (isMatch) {
      const chip = create('span', 'grade', gradeName(grade, text));
      chip.style.cssText = gradeStyle(grade);
      line.append(chip);
    }
    list.append(line);
  }
  if (report.leftOut > 0) {
    conflicts.push(create('p', 'muted', text.match.leftOut(formatCount(report.leftOut))));
  }
  return [...conflicts, title, list];
}
