import { GRADES } from '../../data/codes';
import { PARTS } from '../../data/colouring';
import type { Graph } from '../../data/graph';
import type { LegendEntry, PictureWords } from '../../canvas/picture';
import { PART_TONES } from '../../canvas/tone';
import { coloursOf, shownColouring } from '../../session/colours';
import { Grade, Side } from '../../generated/graph_pb';
import type { Texts } from '../../i18n';
import { fileOf, hasBench, type AppState } from '../../session/app-state';
import { fileTitle } from '../../session/titles';
import { ALL_MICRO_STEPS } from '../../session/state';
import { formatCount } from '../parts/format';
import { gradeName } from '../parts/words';

/** What an image says about itself: where it is from, which side is which, what the colours mean. */
export function imageWords(state: AppState, text: Texts): PictureWords {
  const { view } = state;
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
    legend: legendOf(state, text),
  };
}

/** What is there of each colour. */
function legendOf(state: AppState, text: Texts): LegendEntry[] {
  const graph = state.graphs?.[state.view.only ?? Side.NPU];
  if (!graph) return [];
  const entry = (name: string, grade: Grade, tone: number, { rollup }: Pick<Graph, 'rollup'>) => {
    const count = rollup.grade(grade, 0, graph.count);
    return count === 0 ? [] : [{ name: `${name} ${formatCount(count)}`, tone }];
  };
  if (coloursOf(state) === 'role' && state.view.only !== Side.BENCH) {
    const colouring = shownColouring(state, graph);
    const parts = ['suspect', 'carrier', 'clean', 'unjudged'] as const;
    return [
      ...parts.flatMap((part) => entry(text.parts[part], PARTS[part], PART_TONES[part], colouring)),
      ...entry(gradeName(Grade.UNMATCHED, text), Grade.UNMATCHED, Grade.UNMATCHED, colouring),
    ];
  }
  const shown = GRADES.filter((grade) => grade !== Grade.UNGRADED || hasBench(state));
  return shown.flatMap((grade) => entry(gradeName(grade, text), grade, grade, graph));
}

/** `compare_1_step0_rank3.png` */
export function imageName({ view }: AppState, suffix: string): string {
  const stem = view.file.replace(/^.*\//, '').replace(/\.vis\.db$/, '');
  return `${stem}_step${view.step}_rank${view.rank}.${suffix}`;
}
