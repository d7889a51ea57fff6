import { GRADES } from '../../data/codes';
import type { PictureWords } from '../../canvas/picture';
import { Grade, Side } from '../../generated/graph_pb';
import type { Texts } from '../../i18n';
import { fileOf, hasBench, type AppState } from '../../session/app-state';
import { fileTitle } from '../../session/titles';
import { ALL_MICRO_STEPS } from '../../session/state';
import { formatCount } from '../parts/format';
import { gradeName } from '../parts/words';

/** What an image says about itself: where it is from, which side is which, what the colours mean. */
export function imageWords(state: AppState, text: Texts): PictureWords {
  const { view, graphs } = state;
  const file = fileOf(state);
  const { shell, sides } = text;
  const place = shell.imageTitle(file ? fileTitle(file) : view.file, view.step, view.rank);
  const micro = view.micro === ALL_MICRO_STEPS ? [] : [shell.imageMicroStep(view.micro)];
  const first = file?.isComparison ? sides.debug : sides.model;
  const titled = (name: string, path = '') => [name, path].filter(Boolean).join(' · ');
  const both = [titled(first, file?.npuPath), titled(sides.reference, file?.benchPath)];
  return {
    caption: [place, ...micro].join(' · '),
    titles: view.unified && file?.isComparison ? [both.join('  |  ')] : both,
    legend: GRADES.flatMap((grade) => {
      const graph = graphs?.[view.only ?? Side.NPU];
      const count = graph?.rollup.grade(grade, 0, graph.count) ?? 0;
      if (count === 0 || (grade === Grade.UNGRADED && !hasBench(state))) return [];
      return [{ name: `${gradeName(grade, text)} ${formatCount(count)}`, tone: grade }];
    }),
  };
}

/** `compare_1_step0_rank3.png` */
export function imageName({ view }: AppState, suffix: string): string {
  const stem = view.file.replace(/^.*\//, '').replace(/\.vis\.db$/, '');
  return `${stem}_step${view.step}_rank${view.rank}.${suffix}`;
}
